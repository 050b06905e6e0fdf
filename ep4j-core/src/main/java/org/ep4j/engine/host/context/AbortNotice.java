package org.ep4j.engine.host.context;

import java.lang.foreign.MemorySegment;
import java.lang.invoke.VarHandle;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import org.ep4j.engine.AbortReport;
import org.ep4j.engine.host.internode.ScaleOut;
import org.ep4j.engine.host.layout.ControlPageLayout;
import org.ep4j.memory.NativeMemory;
import org.jspecify.annotations.Nullable;

/**
 * Notice that a rank has aborted an operation, with the reason, for peers that wait for it: the
 * words of {@link ControlPageLayout#ABORTED}. A rank that aborts because of such a notice forwards
 * the reason, so the notice also reaches ranks that the first one cannot reach. Used by the thread
 * inside an operation.
 */
public final class AbortNotice {
  private final HostContext context;

  /** Addresses of the words of all ranks. */
  private final long[] words;

  /** Value of the word of a rank that has aborted since the last reset. */
  private long current = 1;

  AbortNotice(HostContext context) {
    this.context = context;
    words = new long[context.ranks];
    for (int r = 0; r < words.length; r++) {
      words[r] = context.memory.address(r) + ControlPageLayout.ABORTED;
    }
  }

  /** Reads the words of ranks on other nodes from the connection. */
  void connect(ScaleOut connection) {
    for (int r = 0; r < words.length; r++) {
      if (!context.isIntranode(r)) {
        words[r] = connection.aborted(r);
      }
    }
  }

  /** Starts again on all ranks with an epoch that no rank has used. */
  void restart(long agreedEpoch) {
    current = agreedEpoch + 1;
  }

  /**
   * Whether {@code peer} has aborted; its writes before the abort are then visible. Words only
   * grow: a word of a later reset means that this rank was excluded.
   */
  boolean hasAborted(int peer) {
    return NativeMemory.getLongAcquire(words[peer]) >= current;
  }

  /** Reason why {@code peer} has aborted; null if it has not. */
  @Nullable AbortReport report(int peer) {
    if (!hasAborted(peer)) {
      return null;
    }
    long page = context.control(peer);
    int failedRank = NativeMemory.getInt(page + ControlPageLayout.FAILED_RANK);
    int reporter = NativeMemory.getInt(page + ControlPageLayout.REPORTER);
    int length = NativeMemory.getInt(page + ControlPageLayout.TEXT_LENGTH);
    byte[] bytes = new byte[length];
    NativeMemory.copy(page + ControlPageLayout.TEXT, MemorySegment.ofArray(bytes), 0, length);
    String state = new String(bytes, StandardCharsets.UTF_8);
    boolean dead = NativeMemory.getInt(page + ControlPageLayout.FAILED_RANK_DEAD) != 0;
    return new AbortReport(failedRank, dead, state).receivedBy(context.rank, reporter);
  }

  /**
   * Notifies all other ranks that this rank has aborted, once. Waits for the wire for a short time
   * only.
   *
   * @param reason what ended the operation
   * @param cause the same as an exception, or null
   */
  void publish(String reason, @Nullable Throwable cause) {
    if (hasAborted(context.rank)) {
      return;
    }
    long page = context.memory.address(context.rank);
    int earlier = any();
    if (earlier >= 0) {
      long theirs = context.control(earlier) + ControlPageLayout.FAILED_RANK;
      long length =
          ControlPageLayout.TEXT + ControlPageLayout.MAX_TEXT - ControlPageLayout.FAILED_RANK;
      NativeMemory.copy(theirs, page + ControlPageLayout.FAILED_RANK, length);
    } else {
      write(page, AbortReport.of(context.rank, reason, cause));
    }
    release(page);
    ScaleOut connection = context.scaleOut();
    if (connection != null) {
      int length = NativeMemory.getInt(page + ControlPageLayout.TEXT_LENGTH);
      long bytes = ControlPageLayout.TEXT + length - ControlPageLayout.FAILED_RANK;
      connection.abort(ControlPageLayout.FAILED_RANK, bytes, current);
    }
  }

  /**
   * Called before this rank leaves its memory to a lost rank that may only have been stopped: that
   * rank, if it continues, finds the notice there. No other rank reads this memory.
   */
  void abandonRegion() {
    if (!hasAborted(context.rank)) {
      long page = context.memory.address(context.rank);
      write(page, new AbortReport(context.rank, false, "has continued without the lost ranks"));
      release(page);
    }
  }

  private void release(long page) {
    NativeMemory.putLongRelease(page + ControlPageLayout.ABORTED, current);
    // A rank that sees other rows in this memory must see the word too. Only a full fence orders
    // non-temporal stores, which the next epoch may use.
    VarHandle.fullFence();
  }

  /** Another rank that has aborted; -1 if there is none. */
  int any() {
    for (int r = 0; r < words.length; r++) {
      if (r != context.rank && !context.excluded[r] && hasAborted(r)) {
        return r;
      }
    }
    return -1;
  }

  private void write(long page, AbortReport report) {
    byte[] text = report.state().getBytes(StandardCharsets.UTF_8);
    text = Arrays.copyOf(text, Math.min(text.length, ControlPageLayout.MAX_TEXT));
    NativeMemory.putInt(page + ControlPageLayout.FAILED_RANK, report.peer());
    NativeMemory.putInt(page + ControlPageLayout.FAILED_RANK_DEAD, report.dead() ? 1 : 0);
    NativeMemory.putInt(page + ControlPageLayout.REPORTER, context.rank);
    NativeMemory.putInt(page + ControlPageLayout.TEXT_LENGTH, text.length);
    NativeMemory.copy(MemorySegment.ofArray(text), 0, page + ControlPageLayout.TEXT, text.length);
  }
}
