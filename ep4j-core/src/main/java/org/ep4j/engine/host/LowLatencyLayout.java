package org.ep4j.engine.host;

import java.util.Objects;
import org.ep4j.BufferConfig;
import org.ep4j.ExpertPlacement;
import org.ep4j.engine.host.kernel.LogFmt;

/**
 * The low-latency part of each rank's region; the same on all ranks. Offsets count from the start
 * of the part.
 *
 * <p>Operations are numbered 1, 2, 3, ... on all ranks alike, dispatches and combines together.
 * Areas come twice and alternate by the parity of the number. Words only grow; nothing is ever
 * cleaned.
 *
 * <p>Protocol, operation n from source p to destination q, all in q's part unless said otherwise:
 *
 * <ol>
 *   <li>p waits until {@link #RECEIVED} in q's part is at least n - 2: q has read all that
 *       operation n - 2, the last one in this parity, put there, and all that it pulled from p.
 *   <li>p fills its own list and its own rows ({@link #list}, {@link #row}): no two sources ever
 *       write the same area, so a source that was given up on cannot spoil another's rows.
 *   <li>p fills its line ({@link #line}) and stores {@link #NUMBER} = n in it with release order.
 *   <li>q waits for NUMBER at least n with acquire order, reads line, list and rows, or, in a
 *       combine, pulls the rows from p's {@link #combine} region.
 *   <li>q stores RECEIVED = n in its own part with release order. Operations are received in order
 *       of their numbers, so RECEIVED stands for all before, too.
 * </ol>
 *
 * <p>A rank that masks another one stops waiting for it and may overwrite what that rank is still
 * pulling. It counts its {@link #mask} word of the rank up first, with release order and a fence;
 * so does admitting it again: odd = masked. Each line carries the word as it was when the line was
 * sent; the puller compares after its last load, and throws away what it summed if the word has
 * changed, or the source has given up ({@link ControlPageLayout#ABORTED}). In new memory after a
 * loss ({@link RegionReplacement}) the owner writes its mask words again; all others are zero
 * there. A rank that finds a word changed when masks are cleaned has been left out and goes on with
 * the highest number that those who did it have {@link #STARTED}.
 */
final class LowLatencyLayout {
  /** Long, owner: number of the last operation begun. */
  static final long STARTED = 0;

  /** Long, owner: number of the last operation received. */
  static final long RECEIVED = ControlPageLayout.LINE;

  /** In a line, long: number of the operation; stored last. */
  static final long NUMBER = 0;

  /** In a line, long: what the operation is, see {@link LowLatencyKind}. */
  static final long KIND = 8;

  /** In a line, long: dispatch: entries of the list; combine: rows held for the destination. */
  static final long COUNT = 16;

  /** In a line, long: combine: distance from the source's part to the first row. */
  static final long PLACE = 24;

  /** In a line, long: combine: number of the dispatch whose rows come back. */
  static final long DISPATCH = 32;

  /** In a line, long: the source's {@link #mask} word of the destination. */
  static final long MASK = 40;

  /** Bytes of a line that say something. */
  static final long LINE_BYTES = 48;

  private final int ranks;
  private final long maskWords;
  private final long lines;
  private final long lists;
  private final long listBytes;
  private final long rows;
  private final long rowsBytes;
  private final long combine;
  private final long combineBytes;

  /** Bytes without the two combine regions, which have the padded shape of the experts' rows. */
  final long communicationBytes;

  /** Bytes of the part; little more than a page if the buffer has no low-latency operations. */
  final long bytes;

  LowLatencyLayout(BufferConfig config) {
    ExpertPlacement placement = Objects.requireNonNull(config.placement(), "settled placement");
    long maxTokens = config.lowLatencyMaxTokens();
    long rowBytes = 2L * config.hidden();
    ranks = placement.ranks();
    maskWords = 2 * ControlPageLayout.LINE;
    lines = wholeLines(maskWords + 8L * ranks);
    lists = wholePages(lines + 2L * ranks * ControlPageLayout.LINE);
    // A token's entry in a dispatch list: the token, then one local expert a choice; by ranks,
    // then one weight a choice.
    listBytes = wholeLines(maxTokens * (1 + 2L * config.topK()) * 4);
    rows = wholePages(lists + 2L * ranks * listBytes);
    rowsBytes = maxTokens * rowBytes;
    combine = wholePages(rows + 2L * ranks * rowsBytes);
    int experts = placement.maxLocalExperts();
    long padded = (long) experts * ranks * maxTokens * rowBytes;
    // Dense LogFMT rows may be a little longer than BF16 rows.
    long dense =
        (long) Math.min(experts, config.topK())
            * ranks
            * maxTokens
            * LogFmt.maxBytes(config.hidden());
    combineBytes = wholePages(Math.max(padded, dense));
    communicationBytes = combine;
    bytes = combine + 2 * combineBytes;
  }

  /** Long, owner: how often the owner has masked and admitted {@code rank}. */
  long mask(int rank) {
    return maskWords + 8L * rank;
  }

  /** The line that {@code source} writes. */
  long line(long number, int source) {
    return lines + ((number & 1) * ranks + source) * ControlPageLayout.LINE;
  }

  /**
   * Ints that {@code source} writes. Dispatch: for each token {@code -1 - token}, then its local
   * experts in top-k order; by ranks the token, a local expert or -1 for each choice, and their
   * weights if there are any. Combine of listed rows: the row of each entry of that dispatch list.
   */
  long list(long number, int source) {
    return lists + ((number & 1) * ranks + source) * listBytes;
  }

  /**
   * Rows that {@code source} writes in a dispatch, one a token, densely in the order of the list.
   */
  long row(long number, int source) {
    return rows + ((number & 1) * ranks + source) * rowsBytes;
  }

  /** Region of the owner that the peers pull from in a combine; {@code half} is 0 or 1. */
  long combine(int half) {
    return combine + half * combineBytes;
  }

  private static long wholeLines(long offset) {
    return ControlPageLayout.align(offset, ControlPageLayout.LINE);
  }

  private static long wholePages(long offset) {
    return ControlPageLayout.align(offset, ControlPageLayout.BYTES);
  }
}
