package org.ep4j.cuda.fake;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.List;
import org.ep4j.cuda.engine.launch.CombineField;
import org.ep4j.cuda.engine.launch.DispatchField;
import org.ep4j.cuda.engine.launch.LayoutField;
import org.ep4j.cuda.engine.launch.LowLatencyField;
import org.ep4j.cuda.engine.launch.TransposeField;

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
    long get(Enum<?> parameter) {
      return parameters.get(ValueLayout.JAVA_LONG, offset(parameter));
    }
  }

  private FakeKernels() {}

  /** Defines all kernels; each of them ends at once and reports its end. */
  static void define() {
    for (String name : List.of(DISPATCH, EXPERT_DISPATCH)) {
      kernel(name, DispatchField.class);
      // A world of one rank receives each of its tokens once.
      store(name, DispatchField.TOTALS, NEEDED, DispatchField.TOKENS);
      store(name, DispatchField.TOTALS, RECEIVED, DispatchField.TOKENS);
      store(name, DispatchField.TOTALS, OVERFLOW_RANK, DispatchField.RANKS);
      store(name, DispatchField.TOTALS, COUNTS_TICKET, DispatchField.COUNTS_TICKET);
      store(name, DispatchField.COMPLETED, 0, DispatchField.TICKET);
    }
    for (String name : List.of(COMBINE, EXPERT_COMBINE)) {
      kernel(name, CombineField.class);
      store(name, CombineField.COMPLETED, 0, CombineField.TICKET);
    }
    kernel(LOW_LATENCY, LowLatencyField.class);
    store(LOW_LATENCY, LowLatencyField.COMPLETED, 0, LowLatencyField.TICKET);
    kernel("ep4j_layout", LayoutField.class);
    kernel("ep4j_transpose_scales", TransposeField.class);
    store("ep4j_transpose_scales", TransposeField.COMPLETED, 0, TransposeField.TICKET);
  }

  /**
   * Each FLAT dispatch reports a choice of experts that is out of range, in the words of {@code
   * Record} in {@code protocol.cuh}.
   */
  static void reportBadChoice() {
    constant(DISPATCH, DispatchField.RECORD, STATE, NO_SUCH_EXPERT);
  }

  /** Each FLAT dispatch reports that a rank has missed the deadline. */
  static void reportTimeout() {
    long epoch = 1;
    constant(DISPATCH, DispatchField.RECORD, EPOCH, epoch);
    constant(DISPATCH, DispatchField.RECORD, ATTRIBUTED_EPOCH, epoch);
    constant(DISPATCH, DispatchField.RECORD, STATE, TIMEOUT);
  }

  private static void kernel(String prefix, Class<? extends Enum<?>> fields) {
    try (Arena arena = Arena.ofConfined()) {
      FakeCalls.kernel(
          arena.allocateFrom(prefix).address(),
          (long) fields.getEnumConstants().length * Long.BYTES);
    }
  }

  /** The kernel writes a parameter to the word {@code offset} behind an address. */
  private static void store(String prefix, Enum<?> address, long offset, Enum<?> value) {
    store(prefix, address, offset, offset(value), 0);
  }

  private static void constant(String prefix, Enum<?> address, long offset, long value) {
    store(prefix, address, offset, CONSTANT, value);
  }

  private static void store(
      String prefix, Enum<?> address, long offset, long parameter, long constant) {
    try (Arena arena = Arena.ofConfined()) {
      FakeCalls.store(
          arena.allocateFrom(prefix).address(), offset(address), offset, parameter, constant);
    }
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

  private static long offset(Enum<?> parameter) {
    return (long) parameter.ordinal() * Long.BYTES;
  }
}
