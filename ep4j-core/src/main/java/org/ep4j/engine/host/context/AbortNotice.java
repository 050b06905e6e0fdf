package org.ep4j.engine.host.context;

import java.lang.foreign.MemorySegment;
import java.lang.invoke.VarHandle;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import org.ep4j.engine.host.internode.ScaleOut;
import org.ep4j.engine.host.layout.ControlPageLayout;
import org.ep4j.engine.world.AbortReport;
import org.ep4j.memory.NativeMemory;
import org.ep4j.observe.AbortEvent;
import org.jspecify.annotations.Nullable;

/**
 * Notice that a rank has aborted an operation, with the reason, for peers that wait for it: the
 * words of {@link ControlPageLayout#ABORTED}. A rank that aborts because of such a notice forwards
 * the reason, so the notice also reaches ranks that the first one cannot reach. Used by the thread
 * inside an operation.
 */
public final class AbortNotice {
  private final HostContext context;

  AbortNotice(HostContext context) {
    this.context = context;
  }

  /** Reason why {@code peer} has aborted; null if it has not. */
  @Nullable AbortReport report(int peer) {
    if (!context.aborted(peer)) {
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
    AbortEvent.received(context.rank, reporter, failedRank, dead, state);
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
    if (context.aborted(context.rank)) {
      return;
    }
    long page = context.memory.address(context.rank);
    int earlier = context.anyAborted();
    if (earlier >= 0) {
      long theirs = context.control(earlier) + ControlPageLayout.FAILED_RANK;
      long length =
          ControlPageLayout.TEXT + ControlPageLayout.MAX_TEXT - ControlPageLayout.FAILED_RANK;
      NativeMemory.copy(theirs, page + ControlPageLayout.FAILED_RANK, length);
    } else {
      AbortReport report = AbortReport.of(context.rank, reason, cause);
      AbortEvent.sent(context.rank, report.peer(), report.dead(), report.state());
      write(page, report);
    }
    release(page);
    ScaleOut connection = context.scaleOut();
    if (connection != null) {
      int length = NativeMemory.getInt(page + ControlPageLayout.TEXT_LENGTH);
      long bytes = ControlPageLayout.TEXT + length - ControlPageLayout.FAILED_RANK;
      connection.abort(ControlPageLayout.FAILED_RANK, bytes, context.abortValue);
    }
  }

  /**
   * Called before this rank leaves its memory to a lost rank that may only have been stopped: that
   * rank, if it continues, finds the notice there. No other rank reads this memory.
   */
  void abandonRegion() {
    if (!context.aborted(context.rank)) {
      long page = context.memory.address(context.rank);
      write(page, new AbortReport(context.rank, false, "has continued without the lost ranks"));
      release(page);
    }
  }

  private void release(long page) {
    NativeMemory.putLongRelease(page + ControlPageLayout.ABORTED, context.abortValue);
    // A rank that sees other rows in this memory must see the word too. Only a full fence orders
    // non-temporal stores, which the next epoch may use.
    VarHandle.fullFence();
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
