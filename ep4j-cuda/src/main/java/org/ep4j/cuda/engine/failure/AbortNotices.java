package org.ep4j.cuda.engine.failure;

import java.nio.ByteBuffer;
import java.nio.CharBuffer;
import java.nio.charset.CoderResult;
import java.nio.charset.StandardCharsets;
import java.security.SecureRandom;
import java.time.Duration;
import java.util.Arrays;
import org.ep4j.engine.world.AbortReport;
import org.ep4j.engine.world.Members;
import org.ep4j.engine.world.Nodes;
import org.ep4j.error.PeerTimeoutException;
import org.ep4j.group.Group;
import org.ep4j.observe.AbortEvent;
import org.jspecify.annotations.Nullable;

/**
 * Notices between the ranks of a buffer that one of them takes part in no operation until the next
 * reset, with the reason. They go over the group, so they reach threads, processes and other nodes
 * over any transport. A thread of the group receives them and ends the waits of this rank's kernels
 * at once, even if no thread of the caller is in the buffer.
 *
 * <p>A notice counts for the operations since one start of the buffer, which has a number that all
 * ranks agree on: its opening, or a reset. A late notice of operations before a reset has no
 * effect; a notice for a later start, from a rank that was faster in the reset, keeps its effect
 * through the rest of the reset. Any thread.
 *
 * <p>A rank sends its notice to the ranks at distances 1, 2, 4, … from it, and each rank passes on
 * the first notice that it gets: to notify n ranks takes n log n messages, also if all of them miss
 * the same deadline. It reaches all others while fewer than log n ranks are lost.
 *
 * <p>Ranks of a node on other hosts also get a notice when this rank has closed its buffer: they do
 * not share the {@link CallLog}. It ends no wait by itself, because a rank may still be in the last
 * operation.
 *
 * <p>Layout: number of the start (8 bytes), rank that tells it (4), rank that caused the abort (4),
 * whether that one is dead (1), whether kernels of the first one have ended (1), whether the first
 * one has closed its buffer (1), and the state of the second one in UTF-8, shortened to what a
 * notice holds.
 */
public final class AbortNotices implements Group.NoticeListener, AutoCloseable {
  private static final int HEAD = Long.BYTES + 2 * Integer.BYTES + 3;

  /** Number of the start before any reset. */
  private static final long OPENING = 0;

  /** Number of no start. */
  private static final long NEVER = -1;

  private final Group group;
  private final Members members;
  private final HostWords words;
  private final boolean masking;

  /** By reporter, the notice for its latest start; null if none. Guarded by this. */
  private final @Nullable Notice[] received;

  /** By rank, the start in which it has closed its buffer as far as notified. Guarded by this. */
  private final long[] closed;

  /** Topic of this buffer in the group, above 0; 0 if not yet known. Guarded by this. */
  private long topic;

  /** Number of the last start. Guarded by this. */
  private long start = OPENING;

  /** Whether any notice counts. Written under the lock of this. */
  private volatile boolean any;

  /** Whether this rank has sent its notice since the last start. Guarded by this. */
  private boolean sent;

  /**
   * A notice.
   *
   * @param start number of the start
   * @param reporter rank that takes part in no operation
   * @param report the reason
   * @param idle whether no kernel of that rank runs
   * @param closed whether that rank has closed its buffer; the reason is empty then
   */
  private record Notice(
      long start, int reporter, AbortReport report, boolean idle, boolean closed) {
    byte[] encoded() {
      ByteBuffer bytes = ByteBuffer.allocate(Group.MAX_NOTICE);
      bytes.putLong(start).putInt(reporter).putInt(report.peer());
      bytes.put((byte) (report.dead() ? 1 : 0)).put((byte) (idle ? 1 : 0));
      bytes.put((byte) (closed ? 1 : 0));
      // Ends at the last whole character that fits.
      CoderResult _ =
          StandardCharsets.UTF_8.newEncoder().encode(CharBuffer.wrap(report.state()), bytes, true);
      return Arrays.copyOf(bytes.array(), bytes.position());
    }

    static @Nullable Notice of(byte[] encoded) {
      if (encoded.length < HEAD) {
        return null;
      }
      ByteBuffer bytes = ByteBuffer.wrap(encoded);
      long start = bytes.getLong();
      int reporter = bytes.getInt();
      int peer = bytes.getInt();
      boolean dead = bytes.get() != 0;
      boolean idle = bytes.get() != 0;
      boolean closed = bytes.get() != 0;
      String state = StandardCharsets.UTF_8.decode(bytes).toString();
      return new Notice(start, reporter, new AbortReport(peer, dead, state), idle, closed);
    }
  }

  /**
   * The notices of a returning rank, which gets its topic with the first {@link #restart}.
   *
   * @param masking whether kernels of low-latency operations continue without missing ranks
   */
  public AbortNotices(Group group, Members members, HostWords words, boolean masking) {
    this.group = group;
    this.members = members;
    this.words = words;
    this.masking = masking;
    received = new @Nullable Notice[members.size()];
    closed = new long[members.size()];
    Arrays.fill(closed, NEVER);
  }

  /** Agrees on the topic of a new buffer; collective. */
  public void open(Duration timeout) {
    long drawn = new SecureRandom().nextLong(1, Long.MAX_VALUE);
    byte[] mine = ByteBuffer.allocate(Long.BYTES).putLong(drawn).array();
    restart(ByteBuffer.wrap(group.allGather(mine, timeout)[0]).getLong(), OPENING);
  }

  /** The topic of the buffer; 0 on a returning rank. */
  public synchronized long topic() {
    return topic;
  }

  /**
   * The ranks start anew: earlier notices no longer count. Before any rank runs an operation.
   *
   * @param agreedTopic topic of the buffer
   * @param agreedStart higher than that of any start before, the same on all ranks
   */
  public void restart(long agreedTopic, long agreedStart) {
    synchronized (this) {
      topic = agreedTopic;
      start = agreedStart;
      sent = false;
      any = reporter() >= 0;
    }
    group.listen(agreedTopic, this);
  }

  /**
   * Notifies the other ranks that this rank takes part in no operation until the next reset, once.
   * Does not wait. Not sent: what another rank or the group has told all ranks already, and
   * anything by a rank that the others count as lost.
   *
   * @param cause what ended its operation
   * @param idle whether no kernel of this rank runs
   */
  void publish(RuntimeException cause, boolean idle) {
    boolean known =
        cause instanceof PeerTimeoutException timeout
            && members.deathReport(timeout.peer()) != null;
    int rank = members.rank();
    byte[] notice;
    long to;
    synchronized (this) {
      if (known || sent || topic == 0 || reporter() >= 0 || !members.isAlive(rank)) {
        return;
      }
      sent = true;
      to = topic;
      String reason = String.valueOf(cause.getMessage());
      AbortReport report = AbortReport.of(rank, reason, cause);
      AbortEvent.sent(rank, report.peer(), report.dead(), report.state());
      notice = new Notice(start, rank, report, idle, false).encoded();
    }
    pass(to, notice);
  }

  /**
   * Notifies the ranks of this node on other hosts that this rank enters no further operation. None
   * of its kernels runs.
   */
  public void publishClosed(Nodes nodes) {
    int rank = members.rank();
    byte[] notice;
    long to;
    synchronized (this) {
      if (topic == 0 || !members.isAlive(rank)) {
        return;
      }
      to = topic;
      notice = new Notice(start, rank, new AbortReport(rank, false, ""), true, true).encoded();
    }
    for (int r = nodes.first(nodes.of(rank)); r < nodes.end(nodes.of(rank)); r++) {
      if (!nodes.shareHost(r, rank) && members.isAlive(r)) {
        group.notice(r, to, notice);
      }
    }
  }

  /** Without the lock: threads of one process run each other's listeners. */
  private void pass(long to, byte[] notice) {
    int ranks = members.size();
    for (int distance = 1; distance < ranks; distance *= 2) {
      int next = (members.rank() + distance) % ranks;
      if (members.isAlive(next)) {
        group.notice(next, to, notice);
      }
    }
  }

  /** A resumed rank that the others have lost must not end their operations. */
  @Override
  public void noticed(int from, byte[] bytes) {
    Notice notice = Notice.of(bytes);
    if (notice == null || notice.reporter < 0 || notice.reporter >= received.length) {
      return;
    }
    boolean first;
    long to;
    synchronized (this) {
      int reporter = notice.reporter;
      if (notice.start < start || reporter == members.rank() || !members.isAlive(reporter)) {
        return;
      }
      if (notice.closed) {
        closed[reporter] = notice.start;
        return;
      }
      first = reporter() < 0 && !sent;
      to = topic;
      if (!hasAborted(reporter)) {
        AbortReport report = notice.report;
        AbortEvent.received(members.rank(), reporter, report.peer(), report.dead(), report.state());
      }
      received[reporter] = notice;
      any = true;
      endWaits(notice);
    }
    if (first) {
      pass(to, bytes);
    }
  }

  /** Ends waits of kernels again for notices that count; after words were reset. */
  synchronized void endWaitsAgain() {
    for (int r = 0; r < received.length; r++) {
      Notice notice = received[r];
      if (notice != null && notice.start >= start) {
        endWaits(notice);
      }
    }
  }

  /**
   * With masks, kernels reassign the areas of a rank that is gone: not while kernels of that rank
   * may write there.
   */
  private void endWaits(Notice notice) {
    if (!masking) {
      words.abort();
    } else if (notice.idle) {
      words.gone(notice.reporter);
    }
  }

  /** The first rank whose notice counts; -1 if none does. */
  private int reporter() {
    for (int r = 0; r < received.length; r++) {
      Notice notice = received[r];
      if (notice != null && notice.start >= start) {
        return r;
      }
    }
    return -1;
  }

  /** Whether a rank has notified this one. Takes no lock. */
  boolean any() {
    return any;
  }

  /** Why an operation of another rank has ended; null as far as known. */
  synchronized @Nullable AbortReport report() {
    int reporter = reporter();
    Notice notice = reporter < 0 ? null : received[reporter];
    return notice == null ? null : notice.report.receivedBy(members.rank(), reporter);
  }

  /** Whether {@code peer} has notified this rank. */
  synchronized boolean hasAborted(int peer) {
    Notice notice = received[peer];
    return notice != null && notice.start >= start;
  }

  /** Whether {@code peer} has notified this rank that it has closed its buffer. */
  synchronized boolean hasClosed(int peer) {
    return closed[peer] >= start;
  }

  @Override
  public void close() {
    long last = topic();
    if (last != 0) {
      group.listen(last, null);
    }
  }
}
