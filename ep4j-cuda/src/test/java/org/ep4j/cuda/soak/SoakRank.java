package org.ep4j.cuda.soak;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.time.Duration;
import java.util.Objects;
import java.util.SplittableRandom;
import org.ep4j.ExpertBuffer;
import org.ep4j.execution.DeviceStream;
import org.ep4j.execution.Execution;
import org.ep4j.group.Group;
import org.ep4j.routing.Routing;
import org.ep4j.tensor.DType;
import org.ep4j.tensor.ScaleLayout;
import org.ep4j.tensor.Tensor;
import org.jspecify.annotations.Nullable;

/**
 * One rank of a soak: its memory, the words of the epoch, and the results of its checks. The report
 * is read once per window, because reading waits for the machine.
 */
final class SoakRank {
  /** Is notified before each check, and may damage its target. */
  interface Meddler {
    void at(SoakRank rank, SoakCheck what, long address);
  }

  /** Epochs between two reads of the report. */
  static final int WINDOW = 64;

  /**
   * Initial epochs in which ranks wait for each other after each operation: the engine allocates
   * memory on first use, and an allocation may wait for kernels that wait for this rank.
   */
  private static final int SETTLING = 40;

  /**
   * Limit of enqueued epochs if ranks share a machine. If more are queued than the driver holds, a
   * launch of one rank waits inside the driver, where it blocks the launch of the other rank that
   * all of them wait for.
   */
  private static final int RUN_AHEAD = 8;

  private static final Duration TIMEOUT = Duration.ofMinutes(1);
  private static final int TOTALS_BYTES = 4096;

  // As in soak.cuh.
  private static final int WRONG = 0;
  private static final int FIRST = 1;
  private static final int SAMPLE = 2;
  private static final int EXPECTED = 3;
  private static final int FOUND = 4;
  private static final int CHECKED = 5;
  private static final int REPORT_WORDS = 6;

  final SoakShape shape;
  final ExpertBuffer buffer;
  final SoakMachine.Block y;
  final SoakMachine.Block yWeights;
  private final Group group;
  private final SoakMachine machine;
  private final Meddler meddler;
  private final long seed;
  private final MemorySegment words;
  private final SoakMachine.Block x;
  private final SoakMachine.Block scales;
  private final SoakMachine.Block ids;
  private final SoakMachine.Block weights;
  private final SoakMachine.Block bias;
  private final SoakMachine.Block out;
  private final SoakMachine.Block report;
  private final Object[] history = new Object[WINDOW];
  private long epoch;

  SoakRank(
      Group group,
      SoakShape shape,
      ExpertBuffer buffer,
      SoakMachine machine,
      long seed,
      Meddler meddler,
      Arena arena) {
    this.group = group;
    this.shape = shape;
    this.buffer = buffer;
    this.machine = machine;
    this.seed = seed;
    this.meddler = meddler;
    words = arena.allocate(ValueLayout.JAVA_LONG, SoakField.values().length);
    long tokens = shape.maxTokens();
    long rowBytes = 2L * shape.hidden();
    x = machine.allocate(tokens * rowBytes);
    scales = machine.allocate(tokens * shape.hidden() / 128 * Float.BYTES);
    ids = machine.allocate(tokens * SoakShape.TOP_K * Long.BYTES);
    weights = machine.allocate(tokens * SoakShape.TOP_K * Float.BYTES);
    bias = machine.allocate(tokens * rowBytes);
    out = machine.allocate(tokens * rowBytes);
    y = machine.allocate(shape.capacity() * rowBytes);
    yWeights = machine.allocate(shape.capacity() * SoakShape.TOP_K * Float.BYTES);
    report = machine.allocate(REPORT_WORDS * Long.BYTES);
    long[] clean = new long[REPORT_WORDS];
    clean[FIRST] = -1;
    report.write(MemorySegment.ofArray(clean));
    set(SoakField.SEED, seed);
    set(SoakField.RANK, buffer.rank());
    set(SoakField.RANKS, shape.ranks());
    set(SoakField.MAX_TOKENS, shape.maxTokens());
    set(SoakField.EXPERTS, SoakShape.EXPERTS);
    set(SoakField.TOP_K, SoakShape.TOP_K);
    set(SoakField.HIDDEN, shape.hidden());
    set(SoakField.CAPACITY, shape.capacity());
    set(SoakField.REPORT, report.address());
    set(SoakField.X, x.address());
    set(SoakField.IDS, ids.address());
    set(SoakField.WEIGHTS, weights.address());
    set(SoakField.ROUTES, machine.allocate((long) shape.pairs() * Long.BYTES).address());
    set(SoakField.HOLDERS, machine.allocate((long) shape.pairs() * Integer.BYTES).address());
    set(SoakField.SOURCES, machine.allocate(shape.capacity() * Integer.BYTES).address());
    set(SoakField.TOTALS, machine.allocate(TOTALS_BYTES).address());
  }

  /** Random numbers that are equal on all ranks. */
  SplittableRandom shared() {
    return new SplittableRandom(seed ^ epoch * 0x9E3779B97F4A7C15L);
  }

  /** Random numbers of this rank. */
  SplittableRandom own() {
    return new SplittableRandom(~seed ^ epoch * 0x9E3779B97F4A7C15L + 31L * (buffer.rank() + 1));
  }

  /** Number of epochs so far. */
  long epoch() {
    return epoch;
  }

  void set(SoakField word, long value) {
    words.setAtIndex(ValueLayout.JAVA_LONG, word.ordinal(), value);
  }

  void set(SoakField word, boolean value) {
    set(word, value ? 1 : 0);
  }

  void set(SoakField word, @Nullable Tensor tensor) {
    set(word, tensor == null ? 0 : tensor.address());
  }

  /** Starts the words of an epoch. */
  void begin(SoakTraffic traffic) {
    set(SoakField.EPOCH, epoch);
    set(SoakField.SALT, 0);
    set(SoakField.TOKENS, traffic.packedTokens());
    set(SoakField.FIRST_EXPERT, traffic.firstExpert());
    set(SoakField.EXPERT_SPAN, traffic.span());
    set(SoakField.MASKED, traffic.masked());
    set(SoakField.EMPTY, traffic.empty());
    set(SoakField.SCALES, 0);
    set(SoakField.BIAS, 0);
  }

  /** Ends the epoch; once per window all ranks read the results of their checks. */
  void end(Object what) {
    history[(int) (epoch % WINDOW)] = what;
    epoch++;
    if (epoch % WINDOW == 0) {
      look();
    } else if (epoch % RUN_AHEAD == 0 && machine.isSharedBy(shape.ranks())) {
      machine.finish();
    }
  }

  void launch(SoakKernel kernel) {
    machine.launch(kernel, words);
  }

  /** Creates the inputs of the epoch and computes the target of each row. */
  void makeInputs() {
    launch(SoakKernel.MAKE);
    launch(SoakKernel.ROUTES);
    launch(SoakKernel.COUNT);
    launch(SoakKernel.ROW_TABLE);
  }

  /** How an operation runs on a stream; null = the buffer's own. */
  static Execution execution(@Nullable DeviceStream stream) {
    return stream == null ? Execution.SYNCHRONOUS : Execution.on(stream);
  }

  /**
   * The stream of an operation that runs in order with the kernels; an operation without a stream
   * starts after they have ended.
   */
  @Nullable DeviceStream stream(boolean inOrder) {
    if (inOrder) {
      return machine.stream();
    }
    machine.finish();
    return null;
  }

  /** Called after an operation. */
  void step() {
    if (epoch < SETTLING) {
      machine.finish();
      buffer.barrier();
    }
  }

  /** Sets the tensor of a check for the kernels; null if missing. */
  void checks(SoakCheck what, @Nullable Tensor tensor) {
    set(Objects.requireNonNull(what.word, what.name()), tensor);
    if (tensor != null && tensor.byteSize() > 0) {
      meddler.at(this, what, tensor.address());
    }
  }

  /** Requires that the last row of {@code x} is padding. */
  void checksPadding(Tensor x) {
    long rowBytes = x.byteSize() / x.size(0);
    meddler.at(this, SoakCheck.PADDING, x.address() + x.byteSize() - rowBytes);
  }

  /**
   * Sets the scales to check: [..., rows, columns] or, column-major, [..., columns, rows], possibly
   * with more rows than used.
   *
   * @param groupRows rows of a group, at least 1
   */
  void checksScales(@Nullable Tensor scales, long groupRows, ScaleLayout layout) {
    if (scales != null) {
      boolean byColumns = layout == ScaleLayout.COLUMN_MAJOR;
      int last = scales.dimensions() - 1;
      long across = scales.size(last);
      set(SoakField.SCALE_GROUP_ROWS, groupRows);
      set(SoakField.SCALE_GROUP_STRIDE, scales.size(last - 1) * across);
      set(SoakField.SCALE_ROW_STRIDE, byColumns ? 1 : across);
      set(SoakField.SCALE_COLUMN_STRIDE, byColumns ? across : 1);
    }
    checks(SoakCheck.SCALES, scales);
  }

  /** Damages a byte in the order of the kernels. */
  void flip(long address) {
    set(SoakField.VICTIM, address);
    launch(SoakKernel.FLIP);
  }

  Tensor x(DType dtype, int tokens) {
    return x.as(dtype, tokens, shape.hidden());
  }

  Tensor scales(DType dtype, int tokens, int columns) {
    set(SoakField.SCALES, scales.address());
    return scales.as(dtype, tokens, columns);
  }

  Tensor bias(int tokens) {
    set(SoakField.BIAS, bias.address());
    return bias.as(DType.BF16, tokens, shape.hidden());
  }

  Tensor out(int tokens) {
    return out.as(DType.BF16, tokens, shape.hidden());
  }

  Routing routing(int tokens, boolean wide) {
    set(SoakField.WIDE_IDS, wide);
    return Routing.of(
        ids.as(wide ? DType.INT64 : DType.INT32, tokens, SoakShape.TOP_K),
        weights.as(DType.FP32, tokens, SoakShape.TOP_K));
  }

  /** Another rank has found and reported an error: all ranks end together. */
  static final class FoundElsewhere extends RuntimeException {
    private static final long serialVersionUID = 1;

    private FoundElsewhere() {
      super("a mistake on another rank", null, false, false);
    }
  }

  /**
   * Waits for all kernels of all ranks; returns the number of rows that this rank has compared so
   * far. Throws the first error.
   */
  long look() {
    machine.finish();
    long[] found = new long[REPORT_WORDS];
    report.read(MemorySegment.ofArray(found));
    boolean elsewhere = false;
    for (byte[] other : group.allGather(new byte[] {(byte) (found[WRONG] > 0 ? 1 : 0)}, TIMEOUT)) {
      elsewhere |= other[0] != 0;
    }
    if (found[WRONG] > 0) {
      long first = found[FIRST] >>> 40;
      throw new AssertionError(
          "%d wrong elements; the first: %s; one of them: %s is 0x%x instead of 0x%x; %s; repeat with -Dep4j.seed=%d"
              .formatted(
                  found[WRONG],
                  place(found[FIRST]),
                  place(found[SAMPLE]),
                  found[FOUND],
                  found[EXPECTED],
                  history[(int) (first % WINDOW)],
                  seed));
    }
    if (elsewhere) {
      throw new FoundElsewhere();
    }
    return found[CHECKED];
  }

  private String place(long packed) {
    return "epoch %d, rank %d, %s, row %d, byte %d"
        .formatted(
            packed >>> 40,
            buffer.rank(),
            SoakCheck.values()[(int) (packed >>> 35 & 31)],
            packed >>> 17 & 0x3FFFF,
            packed & 0x1FFFF);
  }
}
