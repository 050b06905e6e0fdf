package org.ep4j.c.struct;

import java.lang.foreign.Arena;
import java.util.Objects;
import org.ep4j.execution.DeviceStream;
import org.ep4j.execution.Event;
import org.ep4j.execution.Execution;
import org.ep4j.memory.NativeMemory;
import org.jspecify.annotations.Nullable;

/**
 * Arguments of a function as objects of the API. A call with the same bytes as the last one uses
 * the objects of that one, so a loop over the same memory allocates nothing. These objects are
 * addresses, shapes and options, and keep no content of the memory: the same address in memory that
 * was freed and allocated again is right. Bytes that name an event are read in each call, which
 * refuses a closed one. Used by the thread in the buffer.
 */
public abstract class Request {
  /** {@code ep4j_execution}. */
  public static final Struct EXECUTION = Struct.fixed("ep4j_execution");

  private static final long STREAM = EXECUTION.int64("stream");
  private static final long PREVIOUS = EXECUTION.int64("previous");
  private static final long ON_STREAM = EXECUTION.int32("on_stream");
  private static final long ASYNC = EXECUTION.int32("async");

  private final Struct struct;

  /** Offset of the field that names an object: another one in each call of a loop. */
  private final long objectField;

  /** Offset of the {@code ep4j_execution}. */
  private final long executionField;

  /** Address of the bytes of the last call. */
  private final long copy;

  private boolean valid;

  /**
   * A request before its first call.
   *
   * @param objectField offset of the field that names an object; {@link Struct#SIZE} without one
   * @param executionField offset of the {@code ep4j_execution}
   * @param arena owns the copy
   */
  Request(Struct struct, long objectField, long executionField, Arena arena) {
    this.struct = struct;
    this.objectField = objectField;
    this.executionField = executionField;
    this.copy = arena.allocate(struct.size(), Long.BYTES).address();
  }

  /** Reads the arguments of a call. */
  public final void take(long args) {
    struct.requireInput("args", args);
    boolean same = valid;
    for (long at = 0; at < struct.size(); at += Long.BYTES) {
      long word = NativeMemory.getLong(args + at);
      same &= at == objectField || word == NativeMemory.getLong(copy + at);
      NativeMemory.putLong(copy + at, word);
    }
    if (!same || previous() != 0) {
      valid = false;
      read(copy);
      valid = true;
    }
  }

  /** Makes objects of the arguments at an address. */
  abstract void read(long args);

  /** A part that {@link #read} has set. */
  static <T> T given(@Nullable T part) {
    return Objects.requireNonNull(part, "part of a request that was taken");
  }

  /** The value of the field that names an object. */
  final long object() {
    return NativeMemory.getLong(copy + objectField);
  }

  /** Number of the event that the operation waits for, or 0. */
  private long previous() {
    return NativeMemory.getLong(copy + executionField + PREVIOUS);
  }

  /** The {@code ep4j_execution} of the call. */
  final Execution execution() {
    long at = copy + executionField;
    long previous = previous();
    Execution execution =
        Constants.flag("args->execution.on_stream", NativeMemory.getInt(at + ON_STREAM))
            ? Execution.on(new DeviceStream(NativeMemory.getLong(at + STREAM)))
            : Execution.SYNCHRONOUS;
    if (previous != 0) {
      execution =
          execution.after(
              ObjectTable.PROCESS.get(
                  "args->execution.previous", previous, Event.class, "an open event"));
    }
    return Constants.flag("args->execution.async", NativeMemory.getInt(at + ASYNC))
        ? execution.async()
        : execution;
  }
}
