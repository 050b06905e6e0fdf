package org.ep4j;

import org.jspecify.annotations.Nullable;

/**
 * Where and when an operation runs that has no other options. Immutable; make one and reuse it.
 *
 * @param stream device stream to run on; null = the buffer's own
 * @param previousEvent event to wait for first
 * @param async return before completion
 */
public record Schedule(
    @Nullable DeviceStream stream, @Nullable Event previousEvent, boolean async) {
  /** On the buffer's own stream, at once, until completion. */
  public static final Schedule DEFAULT = new Schedule(null, null, false);
}
