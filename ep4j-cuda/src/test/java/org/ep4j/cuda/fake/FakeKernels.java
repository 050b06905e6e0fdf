package org.ep4j.cuda.fake;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.List;
import java.util.Map;
import org.ep4j.cuda.struct.CombineParameters;
import org.ep4j.cuda.struct.DispatchParameters;
import org.ep4j.cuda.struct.ExpertIdsParameters;
import org.ep4j.cuda.struct.FieldOffsets;
import org.ep4j.cuda.struct.LayoutParameters;
import org.ep4j.cuda.struct.LowLatencyParameters;
import org.ep4j.cuda.struct.ScaleRowsParameters;
import org.ep4j.cuda.struct.Struct;
import org.ep4j.cuda.struct.TransposeParameters;

/**
 * The kernels as the fake driver knows them: the size of their parameters, and the words that they
 * write for the host. The only place of these tests that knows where a parameter lies.
 */
final class FakeKernels {
  static final String DISPATCH = "ep4j_dispatch";
  static final String EXPERT_DISPATCH = "ep4j_expert_dispatch";
  static final String COMBINE = "ep4j_combine";
  static final String EXPERT_COMBINE = "ep4j_expert_combine";
  static final String LOW_LATENCY = "ep4j_low_latency_";
  private static final String LAYOUT = "ep4j_layout";
  private static final String TRANSPOSE = "ep4j_transpose_scales";
  static final String SCALE_ROWS = "ep4j_scale_rows";
  static final String EXPERT_IDS = "ep4j_expert_ids";

  /** Words of the counts that a dispatch writes; the first one is written last. */
  private static final int COUNTS_TICKET = 0;

  private static final int NEEDED = 8;
  private static final int RECEIVED = 16;
  private static final int OVERFLOW_RANK = 24;

  /** Words of the record of a failure, and its states. */
  private static final int STATE = 0;

  private static final int EPOCH = 8;
  private static final int ATTRIBUTED_EPOCH = 72;
  private static final int TIMEOUT = 1;
  private static final int NO_SUCH_EXPERT = 2;

  private static final int CONSTANT = -1;

  /** A launch: the kernel, its parameters and its shape. */
  record Launch(
      String kernel,
      MemorySegment parameters,
      long blocks,
      long threads,
      long sharedBytes,
      long stream) {
    /** A parameter by its name in kernels. */
    long get(String parameter) {
      return parameters.get(ValueLayout.JAVA_LONG, FieldOffsets.of(struct(kernel), parameter));
    }
  }

  /** The parameters of each kernel, by a prefix of its name. */
  private static final Map<String, Struct> PARAMETERS =
      Map.of(
          DISPATCH, new DispatchParameters(),
          EXPERT_DISPATCH, new DispatchParameters(),
          COMBINE, new CombineParameters(),
          EXPERT_COMBINE, new CombineParameters(),
          LOW_LATENCY, new LowLatencyParameters(),
          LAYOUT, new LayoutParameters(),
          TRANSPOSE, new TransposeParameters(),
          SCALE_ROWS, new ScaleRowsParameters(),
          EXPERT_IDS, new ExpertIdsParameters());

  private FakeKernels() {}

  /** Defines all kernels; each of them ends at once and reports its end. */
  static void define() {
    PARAMETERS.forEach(FakeKernels::kernel);
    for (String name : List.of(DISPATCH, EXPERT_DISPATCH)) {
      // A world of one rank receives each of its tokens once.
      store(name, "totals", NEEDED, "tokens");
      store(name, "totals", RECEIVED, "tokens");
      store(name, "totals", OVERFLOW_RANK, "ranks");
      store(name, "totals", COUNTS_TICKET, "counts_ticket");
    }
    for (String name :
        List.of(DISPATCH, EXPERT_DISPATCH, COMBINE, EXPERT_COMBINE, LOW_LATENCY, TRANSPOSE)) {
      store(name, "receipt.completed", 0, "receipt.ticket");
    }
  }

  /**
   * Each FLAT dispatch reports a choice of experts that is out of range, in the words of {@code
   * Record} in {@code protocol.cuh}.
   */
  static void reportBadChoice() {
    constant(DISPATCH, "record", STATE, NO_SUCH_EXPERT);
  }

  /** Each FLAT dispatch reports that a rank has missed the deadline. */
  static void reportTimeout() {
    long epoch = 1;
    constant(DISPATCH, "record", EPOCH, epoch);
    constant(DISPATCH, "record", ATTRIBUTED_EPOCH, epoch);
    constant(DISPATCH, "record", STATE, TIMEOUT);
  }

  private static void kernel(String prefix, Struct parameters) {
    try (Arena arena = Arena.ofConfined()) {
      FakeCalls.kernel(arena.allocateFrom(prefix).address(), parameters.bytes());
    }
  }

  /** The kernel writes a parameter to the word {@code offset} behind an address. */
  private static void store(String prefix, String address, long offset, String value) {
    store(prefix, address, offset, FieldOffsets.of(struct(prefix), value), 0);
  }

  private static void constant(String prefix, String address, long offset, long value) {
    store(prefix, address, offset, CONSTANT, value);
  }

  private static void store(
      String prefix, String address, long offset, long parameter, long constant) {
    try (Arena arena = Arena.ofConfined()) {
      FakeCalls.store(
          arena.allocateFrom(prefix).address(),
          FieldOffsets.of(struct(prefix), address),
          offset,
          parameter,
          constant);
    }
  }

  private static Struct struct(String kernel) {
    return PARAMETERS.entrySet().stream()
        .filter(each -> kernel.startsWith(each.getKey()))
        .map(Map.Entry::getValue)
        .findFirst()
        .orElseThrow();
  }

  /** The launches so far that succeeded. */
  static List<Launch> launches() {
    return FakeDriver.calls("cuLaunchKernelEx").stream()
        .filter(call -> call.result() == 0)
        .map(
            call ->
                new Launch(
                    FakeCalls.text(call.argument(0)),
                    FakeCalls.bytes(call.argument(1), 4096),
                    call.argument(2),
                    call.argument(3),
                    call.argument(4),
                    call.argument(5)))
        .toList();
  }
}
