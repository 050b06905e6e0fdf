package org.ep4j;

import org.jspecify.annotations.Nullable;

/**
 * Stream and order of an operation without other options. Immutable; create one and reuse it.
 *
 * @param stream device stream to run on; null = the buffer's own stream
 * @param previousEvent event that the operation waits for first
 * @param async return before completion
 */
public record Schedule(
    @Nullable DeviceStream stream, @Nullable Event previousEvent, boolean async) {
  /** On the buffer's own stream, immediately, synchronous. */
  public static final Schedule DEFAULT = new Schedule(null, null, false);
}
