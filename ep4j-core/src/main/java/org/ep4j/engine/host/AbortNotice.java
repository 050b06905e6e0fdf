package org.ep4j.engine.host;

import java.lang.foreign.MemorySegment;
import java.lang.invoke.VarHandle;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import org.ep4j.PeerTimeoutException;
import org.ep4j.memory.NativeMemory;
import org.jspecify.annotations.Nullable;

/**
 * How a rank that has left an operation halfway tells the others, who wait for what it will never
 * do, and why: the words of {@link ControlPageLayout#ABORTED}. Who ends because of such a rank
 * tells its reason on, so ranks hear that cannot reach each other any more. Used by the thread that
 * is inside an operation.
 */
final class AbortNotice {
  private final HostContext context;

  /** Addresses of all ranks' words. */
  private final long[] words;

  /** What the word of a rank is that has given up since the last reset. */
  private long current = 1;

  /**
   * Why a rank has given up.
   *
   * @param peer the rank where the trouble began
   * @param dead whether that rank is dead or cannot be reached
   * @param state what to say of that rank
   */
  record Report(int peer, boolean dead, String state) {}

  AbortNotice(HostContext context) {
    this.context = context;
    words = new long[context.ranks];
    for (int r = 0; r < words.length; r++) {
      words[r] = context.memory.address(r) + ControlPageLayout.ABORTED;
    }
  }

  /** From now on words of ranks of other nodes are those of the connection. */
  void connect(ScaleOut connection) {
    for (int r = 0; r < words.length; r++) {
      if (!context.isIntranode(r)) {
        words[r] = connection.aborted(r);
      }
    }
  }

  /** All ranks begin anew with an epoch that none has used. */
  void restart(long agreedEpoch) {
    current = agreedEpoch + 1;
  }

  /**
   * Whether {@code peer} has given up; what it did before is visible then. Words only grow: one of
   * a later reset says that this rank has been left out.
   */
  boolean hasAborted(int peer) {
    return NativeMemory.getLongAcquire(words[peer]) >= current;
  }

  /** Why {@code peer} has given up; null if it has not. */
  @Nullable Report report(int peer) {
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
    if (failedRank == context.rank) {
      return new Report(reporter, false, "has given up (it says: this rank " + state + ")");
    }
    return new Report(
        failedRank,
        NativeMemory.getInt(page + ControlPageLayout.FAILED_RANK_DEAD) != 0,
        reporter == failedRank ? state : state + ", says rank " + reporter);
  }

  /**
   * Tells all others that this rank has given up, unless it has told them. Waits for the wire, but
   * only for a moment.
   *
   * @param reason what has ended the operation
   * @param cause the same, if it is an exception
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
    } else if (cause instanceof PeerTimeoutException timeout) {
      write(page, new Report(timeout.peer(), timeout.peerDead(), timeout.peerState()));
    } else {
      write(page, new Report(context.rank, false, "has given up (" + reason + ")"));
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
   * Before this rank leaves its memory to a rank that was lost, and may only have been stopped:
   * tells that one, if it goes on, that nobody is there. It alone will look there.
   */
  void abandonRegion() {
    if (!hasAborted(context.rank)) {
      long page = context.memory.address(context.rank);
      write(page, new Report(context.rank, false, "has gone on without the ranks that were lost"));
      release(page);
    }
  }

  private void release(long page) {
    NativeMemory.putLongRelease(page + ControlPageLayout.ABORTED, current);
    // Whoever sees other rows in this rank's memory sees the word too; stores around the cache, of
    // which the next epoch may have some, are ordered by nothing less.
    VarHandle.fullFence();
  }

  /** Another rank that has given up; -1 if there is none. */
  int any() {
    for (int r = 0; r < words.length; r++) {
      if (r != context.rank && !context.excluded[r] && hasAborted(r)) {
        return r;
      }
    }
    return -1;
  }

  private void write(long page, Report report) {
    byte[] text = report.state.getBytes(StandardCharsets.UTF_8);
    text = Arrays.copyOf(text, Math.min(text.length, ControlPageLayout.MAX_TEXT));
    NativeMemory.putInt(page + ControlPageLayout.FAILED_RANK, report.peer);
    NativeMemory.putInt(page + ControlPageLayout.FAILED_RANK_DEAD, report.dead ? 1 : 0);
    NativeMemory.putInt(page + ControlPageLayout.REPORTER, context.rank);
    NativeMemory.putInt(page + ControlPageLayout.TEXT_LENGTH, text.length);
    NativeMemory.copy(MemorySegment.ofArray(text), 0, page + ControlPageLayout.TEXT, text.length);
  }
}
