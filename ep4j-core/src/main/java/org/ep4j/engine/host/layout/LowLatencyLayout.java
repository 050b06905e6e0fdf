package org.ep4j.engine.host.layout;

import java.util.Objects;
import org.ep4j.config.BufferConfig;
import org.ep4j.engine.Limits;
import org.ep4j.engine.host.kernel.LogFmt;
import org.ep4j.routing.ExpertPlacement;

/**
 * The low-latency part of each rank's region; the same on all ranks. Offsets count from the start
 * of the part.
 *
 * <p>Operations are numbered 1, 2, 3, ... alike on all ranks, dispatches and combines together.
 * Each area exists twice, for odd and even numbers. Words only grow; no rank ever clears them.
 *
 * <p>Protocol, operation n from source p to destination q, all in q's part unless stated otherwise:
 *
 * <ol>
 *   <li>p waits until {@link #RECEIVED} in q's part is at least n - 2: q has read all data of
 *       operation n - 2, the last one of this parity, and has finished its pulls from p.
 *   <li>p fills its own list and its own rows ({@link #list}, {@link #row}). Each source has its
 *       own areas, so a source that was masked cannot overwrite the data of another.
 *   <li>p fills its header ({@link #header}) and stores {@link #NUMBER} = n in it with release
 *       order.
 *   <li>q waits for NUMBER at least n with acquire order, reads header, list and rows, or, in a
 *       combine, pulls the rows from p's {@link #combine} region.
 *   <li>q stores RECEIVED = n in its own part with release order. Ranks receive operations in the
 *       order of their numbers, so RECEIVED covers all earlier operations.
 * </ol>
 *
 * <p>A rank that masks another one stops waiting for it and may overwrite rows that the masked rank
 * still pulls. Before that it increments its {@link #mask} word of the masked rank, with release
 * order and a fence; admission increments the word again: odd = masked. Each header carries the
 * word at the time of sending. The puller compares after its last load and discards its sums if the
 * word has changed or the source has aborted ({@link ControlPageLayout#ABORTED}). In new memory
 * after a loss ({@code RegionReplacement}) the owner writes its mask words again; all other words
 * are zero. A rank that finds a changed word during cleanMask has been masked, and continues with
 * the highest {@link #STARTED} of the ranks that masked it.
 */
public final class LowLatencyLayout {
  /** Long, owner: number of the last begun operation. */
  public static final long STARTED = 0;

  /** Long, owner: number of the last received operation. */
  public static final long RECEIVED = ControlPageLayout.LINE;

  /** In a header, long: number of the operation; stored last. */
  public static final long NUMBER = 0;

  /** In a header, long: kind of the operation, see {@code LowLatencyKind}. */
  public static final long KIND = 8;

  /** In a header, long: dispatch: entries of the list; combine: rows held for the destination. */
  public static final long COUNT = 16;

  /** In a header, long: combine: distance from the source's part to the first row. */
  public static final long PLACE = 24;

  /** In a header, long: combine: number of the dispatch whose rows return. */
  public static final long DISPATCH = 32;

  /** In a header, long: the source's {@link #mask} word of the destination. */
  public static final long MASK = 40;

  /** Bytes of a header in use. */
  public static final long HEADER_BYTES = 48;

  private final int ranks;
  private final long maskWords;
  private final long headers;
  private final long lists;
  private final long listBytes;
  private final long rows;
  private final long rowsBytes;
  private final long combine;
  private final long combineBytes;

  /** Bytes of the words with which the ranks coordinate, at the start of the part. */
  final long wordBytes;

  /** Bytes without the two combine regions, which have the padded shape of the experts' rows. */
  public final long communicationBytes;

  /** Bytes of the part; little more than a page without low-latency operations. */
  final long bytes;

  LowLatencyLayout(BufferConfig config) {
    ExpertPlacement placement = Objects.requireNonNull(config.placement(), "settled placement");
    long maxTokens = Limits.lowLatencyTokens(config);
    long rowBytes = 2L * config.hidden();
    ranks = placement.ranks();
    maskWords = 2 * ControlPageLayout.LINE;
    headers = wholeLines(maskWords + 8L * ranks);
    lists = wholePages(headers + 2L * ranks * ControlPageLayout.LINE);
    wordBytes = lists;
    // A token's entry in a dispatch list: the token, then one local expert and perhaps one weight
    // per choice.
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

  /** Bytes that operations of full batches touch if routing is even. */
  long likelyBytes(BufferConfig config) {
    long rows = (long) Limits.lowLatencyTokens(config) * config.topK();
    return communicationBytes + 2 * Math.min(combineBytes, rows * 2L * config.hidden());
  }

  /** Long, owner: how often the owner has masked and admitted {@code rank}. */
  public long mask(int rank) {
    return maskWords + 8L * rank;
  }

  /** The header that {@code source} writes. */
  public long header(long number, int source) {
    return headers + ((number & 1) * ranks + source) * ControlPageLayout.LINE;
  }

  /**
   * Ints that {@code source} writes. Dispatch: for each token {@code -1 - token}, then its local
   * experts in top-k order, each followed by its weight if weights are sent; by ranks the token, a
   * local expert or -1 for each choice, and their weights if there are any. Combine of listed rows:
   * the row of each entry of that dispatch list.
   */
  public long list(long number, int source) {
    return lists + ((number & 1) * ranks + source) * listBytes;
  }

  /**
   * Rows that {@code source} writes in a dispatch, one per token, densely in the order of the list.
   */
  public long row(long number, int source) {
    return rows + ((number & 1) * ranks + source) * rowsBytes;
  }

  /** Region of the owner that the peers pull from in a combine; {@code half} is 0 or 1. */
  public long combine(int half) {
    return combine + half * combineBytes;
  }

  private static long wholeLines(long offset) {
    return ControlPageLayout.align(offset, ControlPageLayout.LINE);
  }

  private static long wholePages(long offset) {
    return ControlPageLayout.align(offset, ControlPageLayout.BYTES);
  }
}
