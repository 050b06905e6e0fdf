package org.ep4j.cuda.fake;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.List;
import java.util.stream.Stream;
import org.ep4j.cuda.jit.KernelName;
import org.ep4j.cuda.struct.CombineParameters;
import org.ep4j.cuda.struct.DispatchParameters;
import org.ep4j.cuda.struct.ExpertIdsParameters;
import org.ep4j.cuda.struct.FieldOffsets;
import org.ep4j.cuda.struct.LayoutParameters;
import org.ep4j.cuda.struct.LowLatencyParameters;
import org.ep4j.cuda.struct.RoutingCountsParameters;
import org.ep4j.cuda.struct.ScaleRowsParameters;
import org.ep4j.cuda.struct.Struct;
import org.ep4j.cuda.struct.TransposeParameters;

/**
 * The kernels as the fake driver knows them: the size of their parameters, and the words that they
 * write for the host. The only place of these tests that knows where a parameter lies.
 */
final class FakeKernels {
  static final String DISPATCH = symbol("dispatch_kernel", new DispatchParameters());
  static final String EXPERT_DISPATCH = symbol("expert_dispatch_kernel", new DispatchParameters());
  static final String INTERNODE_EXPERT_DISPATCH =
      symbol("internode_expert_dispatch_kernel", new DispatchParameters());
  static final String COMBINE_BF16 = symbol("combine_kernel_bf16", new CombineParameters());
  static final String COMBINE_BF16_PUSH =
      symbol("combine_kernel_bf16_push", new CombineParameters());
  static final String INTERNODE_BY_EXPERTS_BF16 =
      symbol("internode_by_experts_kernel_bf16", new CombineParameters());
  static final String LOW_LATENCY_DISPATCH_BF16 =
      symbol("low_latency::dispatch_bf16", new LowLatencyParameters());
  static final String LOW_LATENCY_COMBINE_BF16 =
      symbol("low_latency::combine_bf16", new LowLatencyParameters());
  static final String SCALE_ROWS = symbol("scale_rows_kernel", new ScaleRowsParameters());
  static final String EXPERT_IDS = symbol("expert_ids_kernel", new ExpertIdsParameters());

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

  private static final Struct DISPATCHES = new DispatchParameters();
  private static final Struct COMBINES = new CombineParameters();
  private static final Struct LOW_LATENCY = new LowLatencyParameters();
  private static final Struct LAYOUT = new LayoutParameters();
  private static final Struct COUNTS = new RoutingCountsParameters();
  private static final Struct TRANSPOSITIONS = new TransposeParameters();
  private static final Struct SCALES = new ScaleRowsParameters();
  private static final Struct IDS = new ExpertIdsParameters();

  private FakeKernels() {}

  private static String symbol(String name, Struct parameters) {
    return KernelName.symbol(name, parameters.name());
  }

  /** Defines all kernels; each of them ends at once and reports its end. */
  static void define() {
    for (String name : List.of(DISPATCH, EXPERT_DISPATCH, INTERNODE_EXPERT_DISPATCH)) {
      kernels(name, DISPATCHES);
      // A world of one rank receives each of its tokens once.
      store(name, DISPATCHES, "totals", NEEDED, "tokens");
      store(name, DISPATCHES, "totals", RECEIVED, "tokens");
      store(name, DISPATCHES, "totals", OVERFLOW_RANK, "ranks");
      store(name, DISPATCHES, "totals", COUNTS_TICKET, "counts_ticket");
      store(name, DISPATCHES, "receipt.completed", 0, "receipt.ticket");
    }
    // FLAT dispatches between nodes load, and no test runs them.
    kernels(DISPATCHES.name(), DISPATCHES);
    for (Struct parameters : List.of(LAYOUT, COUNTS, SCALES, IDS)) {
      kernels(parameters.name(), parameters);
    }
    for (Struct parameters : List.of(COMBINES, LOW_LATENCY, TRANSPOSITIONS)) {
      kernels(parameters.name(), parameters);
      store(parameters.name(), parameters, "receipt.completed", 0, "receipt.ticket");
    }
  }

  /**
   * Each FLAT dispatch reports a choice of experts that is out of range, in the words of {@code
   * Record} in {@code protocol.cuh}.
   */
  static void reportBadChoice() {
    constant("record", STATE, NO_SUCH_EXPERT);
  }

  /** Each FLAT dispatch reports that a rank has missed the deadline. */
  static void reportTimeout() {
    long epoch = 1;
    constant("record", EPOCH, epoch);
    constant("record", ATTRIBUTED_EPOCH, epoch);
    constant("record", STATE, TIMEOUT);
  }

  /** Each low-latency kernel masks a rank. */
  static void mask(int rank) {
    store(LOW_LATENCY.name(), LOW_LATENCY, "host_masks", (long) rank * Long.BYTES, CONSTANT, 1);
  }

  /** Kernels whose symbols end with {@code suffix}: that of a structure, or a whole symbol. */
  private static void kernels(String suffix, Struct parameters) {
    try (Arena arena = Arena.ofConfined()) {
      FakeCalls.kernel(arena.allocateFrom(suffix).address(), parameters.bytes());
    }
  }

  /** The kernels write a parameter to the word {@code offset} behind an address. */
  private static void store(
      String suffix, Struct parameters, String address, long offset, String value) {
    store(suffix, parameters, address, offset, FieldOffsets.of(parameters, value), 0);
  }

  /** The FLAT dispatches write a constant. */
  private static void constant(String address, long offset, long value) {
    store(DISPATCH, DISPATCHES, address, offset, CONSTANT, value);
  }

  private static void store(
      String suffix,
      Struct parameters,
      String address,
      long offset,
      long parameter,
      long constant) {
    try (Arena arena = Arena.ofConfined()) {
      FakeCalls.store(
          arena.allocateFrom(suffix).address(),
          FieldOffsets.of(parameters, address),
          offset,
          parameter,
          constant);
    }
  }

  /** The symbol of a kernel ends with the name of its structure. */
  private static Struct struct(String kernel) {
    return Stream.of(DISPATCHES, COMBINES, LOW_LATENCY, LAYOUT, COUNTS, TRANSPOSITIONS, SCALES, IDS)
        .filter(each -> kernel.endsWith(each.name()))
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
