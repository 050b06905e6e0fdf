package org.ep4j.engine.host.layout;

import org.ep4j.config.BufferConfig;
import org.ep4j.engine.Limits;
import org.ep4j.engine.host.kernel.LogFmt;

/**
 * Low latency between ranks of different nodes: {@link LowLatencyLayout} over a wire.
 *
 * <p>Protocol. A rank that shares no memory with the destination writes list, rows and header into
 * its own shadow, at the offsets at which the destination keeps data <em>from</em> that rank, puts
 * them into the destination's <em>areas</em>, and then raises the counter {@link #number} of their
 * parity to the number of the operation. An add follows the puts before it on its lane, so the
 * counter replaces the word NUMBER. The words STARTED, RECEIVED and the mask words are counters
 * likewise. The rank fills the shadow of operation n again for n + 2, after RECEIVED of n has
 * arrived.
 *
 * <p>A wire cannot pull the rows of a combine. The word PLACE in the header of a dispatch gives the
 * offset in the <em>answers</em> of its source at which the returned rows shall lie, counted in
 * rows of maximum length. The owner of the rows puts them there, densely, in the order of the
 * dispatch list, before the header of the combine. Until then the rows lie in memory reserved for
 * that source and parity: a masked rank gets its own rows, never later ones. A rank that masks
 * another one needs to protect no memory, because no rank reads over a wire.
 */
public final class InternodeLowLatencyLayout {
  private static final int WORDS = 5;
  private static final int STARTED = 0;
  private static final int RECEIVED = 1;
  private static final int MASK = 2;
  private static final int NUMBERS = 3;

  private final int first;

  /** Bytes of the areas, and of the shadow. */
  public final long areaBytes;

  /** Bytes of a combine row of maximum length. */
  final long answerRow;

  /** Maximum bytes of the answers to one rank. */
  final long toOne;

  /** Bytes of the answers of one parity. */
  public final long answerBytes;

  /**
   * @param localExperts experts of this rank
   * @param first first counter
   */
  public InternodeLowLatencyLayout(
      BufferConfig config, LowLatencyLayout layout, int localExperts, int first) {
    this.first = first;
    areaBytes = layout.communicationBytes;
    answerRow = Math.max(2L * config.hidden(), LogFmt.maxBytes(config.hidden()));
    long rows = (long) Limits.lowLatencyTokens(config) * Math.min(config.topK(), localExperts);
    toOne = ControlPageLayout.align(rows * answerRow, ControlPageLayout.LINE);
    answerBytes = (long) Limits.lowLatencyTokens(config) * config.topK() * answerRow;
  }

  /** Number of counters. */
  static int counters(int ranks) {
    return WORDS * ranks;
  }

  /** Counter for the word STARTED of {@code rank}, which adds to it. */
  public int started(int rank) {
    return first + WORDS * rank + STARTED;
  }

  /** Counter for the word RECEIVED of {@code rank}, which adds to it. */
  public int received(int rank) {
    return first + WORDS * rank + RECEIVED;
  }

  /**
   * Counter of how often {@code rank} has masked or admitted this rank; {@code rank} adds to it.
   */
  public int mask(int rank) {
    return first + WORDS * rank + MASK;
  }

  /**
   * Counter of the last operation of a parity that {@code rank} has sent; {@code rank} adds to it.
   */
  public int number(int rank, long number) {
    return first + WORDS * rank + NUMBERS + (int) (number & 1);
  }

  /** Offset of unsent answers to one of {@code ranks} ranks. */
  public long waiting(int rank, int ranks, long number) {
    return ((number & 1) * ranks + rank) * toOne;
  }

  /** Offset of the answers of an operation, after {@code before} rows. */
  public long answers(long number, int before) {
    return (number & 1) * answerBytes + before * answerRow;
  }
}
