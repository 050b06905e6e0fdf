package org.ep4j.cuda.engine.throughput;

import org.ep4j.CombineOptions;
import org.ep4j.CombineOrder;
import org.ep4j.config.Layout;
import org.ep4j.cuda.driver.CudaStream;
import org.ep4j.cuda.driver.DeviceCopies;
import org.ep4j.cuda.engine.context.CudaContext;
import org.ep4j.cuda.engine.context.RegionLayout;
import org.ep4j.cuda.engine.context.Staging;
import org.ep4j.cuda.engine.launch.KernelCall;
import org.ep4j.cuda.struct.CombineParameters;
import org.ep4j.engine.Limits;
import org.ep4j.engine.throughput.TensorView;
import org.ep4j.tensor.DType;
import org.ep4j.tensor.Tensor;
import org.jspecify.annotations.Nullable;

/**
 * Launches combines. FLAT rows within a node are pulled where all ranks can read them, and
 * EXPERT_MAJOR rows in the order of experts, or where all ranks have promised that they can; see
 * {@code kernels/combine/row_places.cuh}. Rows of the return buffer have the size of the buffer's
 * widest row: wider rows are combined in several passes of columns. The arguments are valid.
 */
final class Combiner {
  /**
   * Work of a block within one node. With more pushing warps, rows return faster than they are
   * summed. With more parts, fewer warps idle at the end, but finding the rows of a part takes as
   * long as finding the rows of a token.
   *
   * @param pushWarps warps that push FLAT rows; the others sum
   * @param parts parts of a token, each summed by one warp
   */
  private record Work(int pushWarps, int parts) {}

  private static final Work ON_FEW_SMS = new Work(4, 2);
  private static final Work ON_MANY_SMS = new Work(3, 4);
  private static final int FEW_SMS = 32;

  /** Warps that sum rows before they push the sums. */
  private static final int SUM_WARPS = 10;

  private final CudaContext context;

  /** Combines between nodes; null with one node. */
  private final @Nullable InternodeCombiner internode;

  private final TensorView sums = new TensorView();
  private final TensorView weights = new TensorView();
  private final Stages.Cache rowStages;

  private final RingStages.Cache pullStages;

  private final RingStages.Cache expertStages;

  /** Combines whose rows lay where the ranks of the node read them. */
  long inPlaceCombines;

  /**
   * Of a combine of EXPERT_MAJOR rows without bulk copies. Sums are pushed from registers: the
   * warps that sum need no stages.
   */
  private final Stages sumStages;

  Combiner(CudaContext context) {
    long words = Stages.ROW_LISTS + 5L * context.ranks * Integer.BYTES;
    int sharedBytes = context.kernels.sharedBytes;
    rowStages = new Stages.Cache(sharedBytes, words);
    pullStages = new RingStages.Cache(RingStages.Kind.PULL, sharedBytes, context.ranks);
    expertStages = new RingStages.Cache(RingStages.Kind.EXPERTS, sharedBytes, context.ranks);
    sumStages = new Stages(SUM_WARPS, 0, (int) words + SUM_WARPS * Stages.BARRIERS_OF_WARP);
    this.context = context;
    internode = context.internode == null ? null : new InternodeCombiner(context);
  }

  /** Output of the sums if the caller passed none. */
  Tensor ownSums(DType dtype, long tokens, long hidden) {
    long address =
        context.staging.memory(Staging.Buffer.OUT, OperationMemory.sums(context.config, dtype));
    return sums.of(context.deviceMemory, address, dtype, tokens, hidden);
  }

  Tensor ownWeights(long tokens, int topK) {
    long address =
        context.staging.memory(
            Staging.Buffer.OUT_WEIGHTS, OperationMemory.sumsOfWeights(context.config));
    return weights.of(context.deviceMemory, address, DType.FP32, tokens, topK);
  }

  /**
   * Enqueues a combine and returns its ticket.
   *
   * @param out on the device
   * @param outWeights on the device, or null
   */
  long combine(
      Tensor y,
      CudaHandle handle,
      CombineOptions options,
      Tensor out,
      @Nullable Tensor outWeights,
      CudaStream stream,
      boolean captured) {
    boolean flat = handle.layout == Layout.FLAT;
    boolean ordered = options.order() == CombineOrder.EXPERT;
    DType dtype = y.dtype();
    boolean inPlace = internode == null && Limits.combinesInPlaceOnly(context.config);
    boolean pulled = !flat && (ordered || inPlace);
    boolean readable = pulled || (flat && internode == null && (inPlace || isReadable(y)));
    boolean exact = !flat && !pulled && !options.partialRounding();
    DType traveling = exact ? DType.FP32 : dtype;
    KernelCall<CombineParameters> call =
        pulled
            ? context.kernels.expertPull(dtype, ordered)
            : flat
                ? context.kernels.flatCombine(dtype, readable)
                : context.kernels.expertCombine(dtype, exact, options.applyWeights());
    CombineParameters p = call.parameters;
    setConstants(p);
    long hidden = y.size(1);
    HandleLayout at = handle.at();
    p.topK.set(handle.topK);
    call.choose(handle.topK == context.config.topK());
    p.tokens.set(handle.tokens);
    p.routes.set(handle.onDevice(at.routes));
    p.matrix.set(handle.onDevice(at.matrix));
    p.slotRows.set(flat ? 0 : handle.slotRows());
    p.slotWeights.set(options.applyWeights() ? handle.slotWeights() : 0);
    p.entries.set(pulled ? handle.entries() : 0);
    p.keptIds.set(pulled ? handle.keptIds() : 0);
    p.keptWeights.set(pulled && options.applyWeights() ? handle.keptWeights() : 0);
    p.rounded.set(options.partialRounding());
    p.y.set(address(Staging.Buffer.Y, y, stream));
    p.hidden.set(hidden);
    long rowWeights = address(Staging.Buffer.ROW_WEIGHTS, options.topkWeights(), stream);
    p.weights.set(rowWeights);
    // A rank without rows names a place too: without one, all ranks would push.
    long place = y.byteSize() == 0 ? context.layout.received.rows : offset(y);
    p.rowsPlace.set(readable ? place : 0);
    p.weightsPlace.set(readable ? weightsPlace(options.topkWeights(), rowWeights, stream) : 0);
    p.out.set(out.address());
    p.bias0.set(address(Staging.Buffer.BIAS0, options.bias0(), stream));
    p.bias1.set(address(Staging.Buffer.BIAS1, options.bias1(), stream));
    p.outWeights.set(outWeights == null ? 0 : outWeights.address());
    long passColumns =
        internode != null && ordered
            ? internode.columnsByExperts(dtype, handle.topK)
            : context.layout.columnsOfAPass(traveling);
    long ticket = context.completion.next(captured);
    boolean launched = false;
    try {
      for (long column = 0; column < hidden; column += passColumns) {
        long columns = Math.min(passColumns, hidden - column);
        long pieceBytes = dtype.bytes(columns);
        p.column.set(column);
        p.columns.set(columns);
        p.returnRowBytes.set(traveling.bytes(columns));
        p.receipt.ticket.set(column + columns == hidden ? ticket : 0);
        if (internode != null && ordered) {
          internode.launchByExperts(call, handle, pieceBytes, stream);
        } else if (internode != null) {
          internode.launch(call, handle, options, pieceBytes, traveling.bytes(columns), stream);
        } else {
          int bytes =
              pulled
                  ? setRings(p, pullStages.of(pieceBytes))
                  : setStages(p, options, flat, readable, pieceBytes, traveling.bytes(columns));
          call.launch(context.sms(), bytes, stream.handle());
        }
      }
      launched = true;
      if (readable) {
        inPlaceCombines++;
      }
    } finally {
      if (!launched) {
        context.completion.withdraw(ticket);
      }
    }
    return ticket;
  }

  private long offset(Tensor tensor) {
    return tensor.address() - context.region.address();
  }

  /** Whether peers can read a tensor: it is in the region of this rank. */
  boolean isReadable(Tensor tensor) {
    long at = offset(tensor);
    return context.device.properties().hasBulkCopies()
        && tensor.onDevice()
        && at > 0
        && at + tensor.byteSize() <= context.layout.bytes;
  }

  /**
   * Where peers read the weights of the rows: they are copied into the region if they are
   * elsewhere.
   *
   * @param address of the weights on the device
   */
  private long weightsPlace(@Nullable Tensor rowWeights, long address, CudaStream stream) {
    if (rowWeights == null || rowWeights.byteSize() == 0) {
      return 0;
    }
    if (isReadable(rowWeights)) {
      return address - context.region.address();
    }
    RegionLayout layout = context.layout;
    long bytes = Math.min(rowWeights.byteSize(), layout.combineWeightsBytes(context.config.topK()));
    DeviceCopies.copy(context.at(layout.combineWeights), address, bytes, stream);
    return layout.combineWeights;
  }

  /**
   * Divides the work and the shared memory of a block within one node; returns its bytes.
   *
   * @param rowBytes of the columns of a row
   * @param returnRowBytes of the same columns of a row that travels
   */
  private int setStages(
      CombineParameters p,
      CombineOptions options,
      boolean flat,
      boolean readable,
      long rowBytes,
      long returnRowBytes) {
    if (!flat && context.device.properties().hasBulkCopies()) {
      return setRings(p, expertStages.of(returnRowBytes));
    }
    Work work = context.sms() > FEW_SMS ? ON_MANY_SMS : ON_FEW_SMS;
    Stages stages = flat ? rowStages.of(rowBytes, 0, work.pushWarps) : sumStages;
    p.pushWarps.set(stages.warps());
    p.stageBytes.set(stages.stageBytes());
    p.parts.set(work.parts);
    int bytes = stages.bytes() + Stages.weightLists(options);
    return readable ? Math.max(bytes, setRings(p, pullStages.of(rowBytes))) : bytes;
  }

  private static int setRings(CombineParameters p, RingStages stages) {
    p.tableBytes.set(stages.tableBytes());
    p.slots.set(stages.slots());
    p.slotBytes.set(stages.slotBytes());
    return stages.bytes();
  }

  private void setConstants(CombineParameters p) {
    RegionLayout layout = context.layout;
    p.peers.set(context.peers.table());
    p.rank.set(context.rank);
    p.ranks.set(context.ranks);
    p.readyOffset.set(layout.ready);
    p.doneOffset.set(layout.done);
    p.placesOffset.set(layout.places);
    p.groupsOffset.set(layout.groups);
    p.groupWords.set(layout.groupWords);
    p.returnOffset.set(layout.returnBuffer);
    p.returnWeightsOffset.set(layout.returnWeights);
    p.timeout.set(context.config.timeout().toNanos());
    p.record.set(context.words.recordOnDevice());
    p.hostAbort.set(context.words.abortOnDevice());
    p.receipt.completed.set(context.words.completedOnDevice());
  }

  private long address(Staging.Buffer buffer, @Nullable Tensor tensor, CudaStream stream) {
    return context.staging.address(buffer, tensor, stream);
  }
}
