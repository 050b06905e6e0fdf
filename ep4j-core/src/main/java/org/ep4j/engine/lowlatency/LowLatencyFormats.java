package org.ep4j.engine.lowlatency;

import org.ep4j.LowLatencyDispatchOptions;

/**
 * The formats of the rows of a buffer's dispatches. A dispatch of the same row length as the
 * previous one makes none. Used by one thread at a time.
 */
public final class LowLatencyFormats {
  private LowLatencyFormat[] formats;

  /** Formats for a buffer whose longest rows have {@code hidden} values. */
  public LowLatencyFormats(int hidden) {
    formats = LowLatencyFormat.all(hidden);
  }

  /** The format of a dispatch of rows of {@code hidden} values. */
  public LowLatencyFormat of(int hidden, LowLatencyDispatchOptions options) {
    if (formats[0].hidden() != hidden) {
      formats = LowLatencyFormat.all(hidden);
    }
    return formats[LowLatencyFormat.index(options.format(), options.scaleKind())];
  }

  /** Any format, for operations that have none yet. */
  public LowLatencyFormat any() {
    return formats[0];
  }
}
