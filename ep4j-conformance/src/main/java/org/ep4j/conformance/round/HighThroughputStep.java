package org.ep4j.conformance.round;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.List;
import org.ep4j.Combine;
import org.ep4j.CombineOptions;
import org.ep4j.CombineOrder;
import org.ep4j.Dispatch;
import org.ep4j.DispatchHandle;
import org.ep4j.DispatchOptions;
import org.ep4j.Sizing;
import org.ep4j.Tokens;
import org.ep4j.config.Layout;
import org.ep4j.execution.Event;
import org.ep4j.execution.Execution;
import org.ep4j.routing.Routing;
import org.ep4j.tensor.DType;
import org.ep4j.tensor.ScaleLayout;
import org.ep4j.tensor.Tensor;
import org.ep4j.verify.CombineOracle;
import org.ep4j.verify.CombineOracle.Terms;
import org.ep4j.verify.HighThroughputOracle;
import org.ep4j.verify.HighThroughputOracle.Blocks;
import org.ep4j.verify.HighThroughputOracle.Payload;
import org.ep4j.verify.HostCopy;
import org.ep4j.verify.Inputs;
import org.ep4j.verify.Inputs.Part;
import org.ep4j.verify.Poison;
import org.ep4j.verify.Rows;
import org.jspecify.annotations.Nullable;

/**
 * One dispatch and the operations that depend on it: cached dispatches, combines, other dispatches
 * in between. Checks every result, then poisons it.
 */
public final class HighThroughputStep {
  private static final int DEEPEST = 1;
  private static final DType[] PAYLOADS = {
    DType.BF16, DType.BF16, DType.FP8_E4M3, DType.FP8_E4M3, DType.NVFP4, DType.FP16, DType.FP32
  };

  /** Rows of any type are whole 16 bytes in multiples of this hidden size. */
  private static final int HIDDEN_UNIT = 32;

  private static final DType[] SUMMABLE = {DType.BF16, DType.BF16, DType.FP16, DType.FP32};

  private final RankContext in;
  private final Arena arena;
  private final Batch batch;
  private final HighThroughputOracle oracle;
  private final Layout layout;
  private final DispatchOptions options;

  /** The last dispatch, while its rows are valid. */
  private @Nullable Dispatch delivered;

  private HighThroughputStep(RankContext in, Arena arena) {
    this.in = in;
    this.arena = arena;
    boolean weighted = in.shared().nextInt(4) != 0;
    batch = Batch.draw(in.shared(), in.shape(), in.shape().maxTokens(), weighted, arena);
    oracle = new HighThroughputOracle(batch.world(), in.shape().ranksPerNode());
    List<Layout> layouts = in.shape().layouts();
    layout = layouts.get(in.shared().nextInt(layouts.size()));
    int alignment =
        in.shared().nextBoolean() ? 1 : in.shared().nextInt(1, in.shape().expertAlignment() + 1);
    int worst = 0;
    for (int r = 0; r < in.shape().ranks(); r++) {
      worst = Math.max(worst, oracle.rows(r, layout, alignment));
    }
    Sizing sizing =
        switch (in.shared().nextInt(6)) {
          case 0 -> Sizing.atMost(Math.max(1, worst / 2)); // may be too few
          case 1, 2 -> Sizing.atMost(Math.max(1, worst));
          default -> Sizing.EXACT;
        };
    DispatchOptions.Builder dispatching =
        DispatchOptions.builder()
            .experts(batch.experts())
            .sizing(sizing)
            .expertAlignment(alignment)
            .zeroPadding(in.shared().nextBoolean())
            .scaleLayout(ScaleLayout.values()[in.own().nextInt(2)]);
    Execution execution = in.own().nextInt(3) == 0 ? Execution.ASYNCHRONOUS : Execution.SYNCHRONOUS;
    if (in.own().nextInt(8) == 0) {
      execution = execution.after(Event.completed());
    }
    dispatching.execution(execution);
    options = dispatching.build();
  }

  /** Draws and runs a step. */
  public static void run(RankContext in) {
    run(in, 0);
  }

  private static void run(RankContext in, int depth) {
    long mark = in.deviceArena().mark();
    try (Arena arena = Arena.ofShared()) {
      new HighThroughputStep(in, arena).run(depth);
    }
    in.deviceArena().release(mark);
  }

  private void run(int depth) {
    Routing routing = batch.routing(in, arena);
    if (in.own().nextInt(3) == 0) {
      oracle.checkLayout(in.rank(), in.buffer().dispatchLayout(routing, batch.experts()));
    }
    Payload payload = payload();
    in.next("dispatch " + layout + " " + payload.dtype() + ", " + options);
    Dispatch dispatch = in.buffer().dispatch(layout, tokens(payload), routing, options);
    await(dispatch.event());
    in.counts().dispatches++;
    oracle.checkDispatch(in.rank(), layout, dispatch, payload, options);
    try (DispatchHandle handle = dispatch.handle()) {
      delivered = dispatch;
      for (int more = in.shared().nextInt(4); more > 0; more--) {
        follow(handle, depth);
      }
    }
    Dispatch last = delivered;
    if (last != null && in.own().nextBoolean()) {
      Poison.fill(last);
    }
  }

  private void follow(DispatchHandle handle, int depth) {
    switch (in.shared().nextInt(depth < DEEPEST ? 5 : 4)) {
      case 0 -> dispatchAgain(handle);
      case 4 -> {
        run(in, depth + 1);
        delivered = null;
      }
      default -> combine(handle);
    }
  }

  private void await(Event event) {
    if (in.own().nextBoolean()) {
      event.await();
    }
  }

  /** The hidden size of a call: often the largest, else any that all row types allow. */
  private int hidden() {
    int largest = in.shape().hidden();
    int smaller = HIDDEN_UNIT * (1 + in.shared().nextInt(Math.max(1, largest / HIDDEN_UNIT)));
    return smaller > largest || in.shared().nextInt(3) != 0 ? largest : smaller;
  }

  private Payload payload() {
    int hidden = hidden();
    DType dtype;
    do {
      dtype = PAYLOADS[in.shared().nextInt(PAYLOADS.length)];
    } while (dtype.bits() > in.shape().rowDType().bits() || hidden % (128 / dtype.bits()) != 0);
    Inputs inputs = new Inputs(in.shared().nextLong());
    Blocks blocks = null;
    boolean factors = false;
    if (dtype == DType.FP8_E4M3) {
      blocks =
          switch (in.shared().nextInt(4)) {
            case 0 -> null;
            case 1 -> blocks(inputs, DType.INT32, Math.ceilDiv(hidden, 512));
            case 2 -> blocks(inputs, DType.UE8M0, Math.ceilDiv(hidden, 128));
            default -> blocks(inputs, DType.FP32, Math.ceilDiv(hidden, 128));
          };
    } else if (dtype == DType.NVFP4) {
      blocks = blocks(inputs, DType.FP8_E4M3, hidden / 16);
      factors = in.shared().nextBoolean();
    }
    return new Payload(
        dtype,
        hidden,
        inputs.rows(Part.PAYLOAD, dtype, hidden),
        blocks,
        factors ? inputs.rows(Part.GLOBAL_SCALES, DType.FP32, 1) : null);
  }

  private static Blocks blocks(Inputs inputs, DType dtype, int columns) {
    return new Blocks(dtype, columns, inputs.rows(Part.SCALES, dtype, columns));
  }

  private Tokens tokens(Payload payload) {
    int tokens = batch.world().tokens(in.rank());
    Tensor x = filled(payload.x(), payload.dtype(), tokens, payload.hidden());
    Blocks blocks = payload.scales();
    ScaleLayout order = ScaleLayout.values()[in.own().nextInt(2)];
    Tensor scales =
        blocks == null
            ? null
            : order == ScaleLayout.COLUMN_MAJOR
                ? byColumns(blocks, tokens)
                : filled(blocks.rows(), blocks.dtype(), tokens, blocks.columns());
    Tensor factors =
        payload.globalScales() == null ? null : filled(payload.globalScales(), DType.FP32, tokens);
    return new Tokens(x, scales, factors, order);
  }

  /** The scales of this rank's rows by columns, whose ends are poisoned. */
  private Tensor byColumns(Blocks blocks, int tokens) {
    long length = (long) tokens + in.own().nextInt(5);
    Tensor tensor = in.empty(arena, blocks.dtype(), blocks.columns(), length);
    long bytes = blocks.dtype().bytes(1);
    HostCopy.write(
        tensor,
        memory -> {
          Poison.fill(memory);
          for (long t = 0; t < tokens; t++) {
            MemorySegment row = blocks.rows().row(in.rank(), t);
            for (long c = 0; c < blocks.columns(); c++) {
              memory
                  .asSlice((c * length + t) * bytes, bytes)
                  .copyFrom(row.asSlice(c * bytes, bytes));
            }
          }
        });
    return tensor;
  }

  /** A tensor with this rank's rows, in any memory. */
  private Tensor filled(Rows rows, DType dtype, long... shape) {
    Tensor tensor = in.empty(arena, dtype, shape);
    fill(tensor, rows);
    return tensor;
  }

  private void fill(Tensor tensor, Rows rows) {
    long count = tensor.size(0);
    long rowBytes = count == 0 ? 0 : tensor.byteSize() / count;
    HostCopy.write(
        tensor,
        memory -> {
          for (long i = 0; i < count; i++) {
            memory.asSlice(i * rowBytes, rowBytes).copyFrom(rows.row(in.rank(), i));
          }
        });
  }

  private void dispatchAgain(DispatchHandle handle) {
    Payload payload = payload();
    boolean async = in.own().nextInt(3) == 0;
    in.next("cached dispatch " + payload.dtype() + ", " + options);
    Execution execution = async ? Execution.ASYNCHRONOUS : Execution.SYNCHRONOUS;
    Dispatch dispatch = in.buffer().dispatch(layout, tokens(payload), handle, execution);
    await(dispatch.event());
    in.counts().dispatches++;
    oracle.checkCached(in.rank(), layout, dispatch, payload, options);
    delivered = dispatch;
  }

  private void combine(DispatchHandle handle) {
    int hidden = hidden();
    DType dtype;
    do {
      dtype = SUMMABLE[in.shared().nextInt(SUMMABLE.length)];
    } while (hidden % (128 / dtype.bits()) != 0);
    if (in.shape().combinesInPlaceOnly() && !fitsInPlace(dtype, hidden)) {
      return;
    }
    int tokens = batch.world().tokens(in.rank());
    boolean flat = layout == Layout.FLAT;
    Inputs inputs = new Inputs(in.shared().nextLong());
    int biases = in.shared().nextInt(3);
    boolean weighted = in.shared().nextBoolean();
    boolean applied = !flat && batch.world().weighted() && in.shared().nextInt(3) != 0;
    boolean byExperts = !flat && sumsByExperts(dtype, hidden) && in.shared().nextInt(3) == 0;
    int weightColumns = flat ? batch.world().topK() : 1;
    Terms terms =
        new Terms(
            dtype,
            hidden,
            inputs.rows(Part.EXPERT_OUTPUT, dtype, hidden),
            in.shared().nextBoolean(),
            applied,
            byExperts ? CombineOrder.EXPERT : CombineOrder.RANK,
            biases > 0 ? inputs.rows(Part.BIAS0, dtype, hidden) : null,
            biases > 1 ? inputs.rows(Part.BIAS1, dtype, hidden) : null,
            weighted ? inputs.rows(Part.SCALES, DType.FP32, weightColumns) : null);
    Tensor y = expertRows(handle, terms, in.shape().combinesInPlaceOnly() || byExperts);
    CombineOptions.Builder combining =
        CombineOptions.builder()
            .partialRounding(terms.partialRounding())
            .applyWeights(terms.applyWeights())
            .order(terms.order())
            .execution(in.own().nextInt(3) == 0 ? Execution.ASYNCHRONOUS : Execution.SYNCHRONOUS);
    if (terms.weights() != null) {
      long[] shape = flat ? new long[] {handle.rows(), weightColumns} : new long[] {handle.rows()};
      combining.topkWeights(filled(terms.weights(), DType.FP32, shape));
    }
    if (terms.bias0() != null) {
      Tensor first = filled(terms.bias0(), dtype, tokens, hidden);
      if (terms.bias1() == null) {
        combining.bias(first);
      } else {
        combining.bias(first, filled(terms.bias1(), dtype, tokens, hidden));
      }
    }
    Tensor out = null;
    if (in.own().nextBoolean()) {
      out = in.empty(arena, dtype, tokens, hidden);
      Poison.fill(out);
      combining.out(out);
    }
    in.next("combine " + y + ", " + combining.build() + " after " + options);
    Combine combine = in.buffer().combine(y, handle, combining.build());
    await(combine.event());
    in.counts().combines++;
    new CombineOracle(batch.world(), layout, options, in.shape().ranksPerNode())
        .checkCombine(in.rank(), combine, terms);
    if (out != null && HostCopy.mismatch(out, combine.x()) >= 0) {
      throw new AssertionError("the sums of a combine with 'out' are not in it");
    }
    Poison.fill(combine);
  }

  /** Whether the engine can sum such rows in the order of experts; the same on all ranks. */
  private boolean sumsByExperts(DType dtype, int hidden) {
    return in.onHost() || (in.shape().combineInPlace() && fitsInPlace(dtype, hidden));
  }

  /** Whether experts can write such rows over those that were received; the same on all ranks. */
  private boolean fitsInPlace(DType dtype, int hidden) {
    Dispatch here = delivered;
    return here != null
        && here.x().size(1) == hidden
        && dtype.bits() <= in.shape().rowDType().bits();
  }

  /**
   * Rows of the experts: in the region that peers read, in the received rows, or in other memory;
   * on all ranks in the region once in three times, since rows travel another way then.
   *
   * @param inRegion whether they have to be in the region
   */
  private Tensor expertRows(DispatchHandle handle, Terms terms, boolean inRegion) {
    long rows = handle.rows();
    Dispatch here = delivered;
    Tensor y = null;
    boolean everywhere = in.shared().nextInt(3) == 0 || inRegion;
    if (here != null && here.x().size(1) == terms.hidden()) {
      if (everywhere || in.own().nextInt(3) == 0) {
        y = here.combineInput(terms.dtype()).rows(0, rows);
      } else if (here.x().dtype() == terms.dtype() && in.own().nextBoolean()) {
        y = here.x();
      }
    }
    if (y == null) {
      long extra = in.own().nextInt(3);
      y = in.empty(arena, terms.dtype(), rows + extra, terms.hidden());
    }
    fill(y, terms.y());
    return y;
  }
}
