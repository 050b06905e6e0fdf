package org.ep4j.engine.host;

import org.ep4j.BufferConfig;
import org.ep4j.engine.host.kernel.LogFmt;

/**
 * Low latency between ranks of different nodes: {@link LowLatencyLayout} over a wire.
 *
 * <p>Protocol. Who shares no memory with the destination writes list, rows and line into a shadow
 * of its own, in the place where the destination has those that come <em>from</em> it, puts them
 * into the destination's <em>areas</em>, and then adds to the counter {@link #number} of their
 * parity what brings it to the number of the operation: an add follows the puts before it on its
 * lane, so the counter stands for the word NUMBER. The words STARTED, RECEIVED and those of masks
 * are counters likewise. The shadow of operation n is filled again for n + 2, after RECEIVED of n
 * has come back.
 *
 * <p>Rows of a combine cannot be pulled. A dispatch says in the word PLACE of its line where the
 * rows that come back shall lie in the <em>answers</em> of its source, counted in longest rows; the
 * owner of the rows puts them there, densely, in the order of the dispatch list, before the line of
 * the combine. Until then they lie in a place of its own for that source and parity: somebody who
 * is masked gets what was meant for him, not what came after. Who masks a rank needs not protect
 * what that rank may still be reading: nobody reads over a wire.
 */
final class InternodeLowLatencyLayout {
  private static final int WORDS = 5;
  private static final int STARTED = 0;
  private static final int RECEIVED = 1;
  private static final int MASK = 2;
  private static final int NUMBERS = 3;

  private final int first;

  /** Bytes of the areas, and of the shadow. */
  final long areaBytes;

  /** Bytes of the longest row of a combine. */
  final long answerRow;

  /** Bytes that the answers to one rank take at most. */
  final long toOne;

  /** Bytes of the answers of one parity. */
  final long answerBytes;

  /**
   * @param localExperts experts of this rank
   * @param first first counter
   */
  InternodeLowLatencyLayout(
      BufferConfig config, LowLatencyLayout layout, int localExperts, int first) {
    this.first = first;
    areaBytes = layout.communicationBytes;
    answerRow = Math.max(2L * config.hidden(), LogFmt.maxBytes(config.hidden()));
    long rows = (long) config.lowLatencyMaxTokens() * Math.min(config.topK(), localExperts);
    toOne = ControlPageLayout.align(rows * answerRow, ControlPageLayout.LINE);
    answerBytes = (long) config.lowLatencyMaxTokens() * config.topK() * answerRow;
  }

  /** Number of counters. */
  static int counters(int ranks) {
    return WORDS * ranks;
  }

  /** Counter that {@code rank} adds to: its word STARTED. */
  int started(int rank) {
    return first + WORDS * rank + STARTED;
  }

  /** Counter that {@code rank} adds to: its word RECEIVED. */
  int received(int rank) {
    return first + WORDS * rank + RECEIVED;
  }

  /** Counter that {@code rank} adds to: how often it has masked or admitted this rank. */
  int mask(int rank) {
    return first + WORDS * rank + MASK;
  }

  /** Counter that {@code rank} adds to: the last operation of a parity that it has sent. */
  int number(int rank, long number) {
    return first + WORDS * rank + NUMBERS + (int) (number & 1);
  }

  /** Where the answers to one of {@code ranks} ranks wait. */
  long waiting(int rank, int ranks, long number) {
    return ((number & 1) * ranks + rank) * toOne;
  }

  /** Where the answers of an operation begin that {@code before} rows lie before. */
  long answers(long number, int before) {
    return (number & 1) * answerBytes + before * answerRow;
  }
}
