package org.ep4j.execution;

import java.util.Objects;
import org.ep4j.Sizing;
import org.jspecify.annotations.Nullable;

/**
 * When an operation starts, where it runs and when its call returns. Immutable; any thread may use
 * it. Options hold one; cached dispatches take it as an argument.
 */
public final class Execution {
  /** Starts at once, on the buffer's own stream, and returns after completion. */
  public static final Execution SYNCHRONOUS = new Execution(null, null, false);

  /**
   * Starts at once, on the buffer's own stream, and returns before completion. Accessors of the
   * result wait for its event. The event throws errors that the call could not detect, for example
   * an invalid expert id.
   */
  public static final Execution ASYNCHRONOUS = new Execution(null, null, true);

  private final @Nullable DeviceStream stream;
  private final @Nullable Event previousEvent;
  private final boolean async;

  private Execution(@Nullable DeviceStream stream, @Nullable Event previousEvent, boolean async) {
    this.stream = stream;
    this.previousEvent = previousEvent;
    this.async = async;
  }

  /**
   * On a device stream: the call returns after the work is enqueued (dispatch with {@link
   * Sizing#EXACT}: after the counts are known), and results are ready in stream order. Only for
   * device engines; a hook of the operation uses the same stream.
   */
  public static Execution on(DeviceStream stream) {
    return new Execution(Objects.requireNonNull(stream, "stream"), null, false);
  }

  /**
   * The same, but the operation first waits for {@code event}; null waits for nothing. What tensors
   * hold is read after that; their shapes are checked in the call. An asynchronous low-latency
   * operation on the host whose event fails or does not come, or whose routing is then refused,
   * reports it by its own event, and the buffer needs a reset: the ranks have counted it.
   */
  public Execution after(@Nullable Event event) {
    return new Execution(stream, event, async);
  }

  /** The same, but the call returns before completion; excludes {@code returnHook}. */
  public Execution async() {
    return new Execution(stream, previousEvent, true);
  }

  /** Device stream to run on; null = the buffer's own stream. */
  public @Nullable DeviceStream stream() {
    return stream;
  }

  /** Event that the operation waits for first, or null. */
  public @Nullable Event previousEvent() {
    return previousEvent;
  }

  /** Whether the call returns before completion. */
  public boolean isAsync() {
    return async;
  }

  @Override
  public boolean equals(Object other) {
    return other instanceof Execution e
        && Objects.equals(stream, e.stream)
        && Objects.equals(previousEvent, e.previousEvent)
        && async == e.async;
  }

  @Override
  public int hashCode() {
    return Objects.hash(stream, previousEvent, async);
  }

  @Override
  public String toString() {
    return (async ? "asynchronous" : "synchronous")
        + (stream == null ? "" : " on " + stream)
        + (previousEvent == null ? "" : " after " + previousEvent);
  }
}
