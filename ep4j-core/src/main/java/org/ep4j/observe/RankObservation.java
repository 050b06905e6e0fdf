package org.ep4j.observe;

import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import org.ep4j.error.ErrorCode;
import org.ep4j.error.InvalidArgumentException;

/** What one rank has seen, from {@link org.ep4j.ExpertBuffer#observe()}. Immutable. */
public final class RankObservation {
  /** Bytes of the six numbers that begin an encoding. */
  private static final int HEADER = 5 * Integer.BYTES + Long.BYTES;

  private final int rank;
  private final int ranks;
  private final List<Window> windows;
  private final int[] experts;
  private final long[] tokens;
  private final long timeouts;
  private final int timeoutPeer;

  /**
   * The same consecutive {@link ObservationLog#WINDOW} operations of all ranks, as one rank saw
   * them.
   *
   * @param number from 0, since the buffer was opened or reset
   * @param nanos from the end of the window before to the end of this one
   * @param rows received from dispatches, own ones included
   * @param waited nanoseconds waited for each rank
   */
  public record Window(long number, long nanos, long rows, long[] waited) {
    /** Copies the array. */
    public Window {
      waited = waited.clone();
    }

    /** A copy. */
    @Override
    public long[] waited() {
      return waited.clone();
    }

    /** Nanoseconds waited for {@code peer}. */
    public long waitedFor(int peer) {
      return waited[peer];
    }

    @Override
    public String toString() {
      return "window " + number + ": " + rows + " rows, waited " + Arrays.toString(waited) + " ns";
    }
  }

  /**
   * An observation, for engines.
   *
   * @param windows the oldest first, with consecutive numbers
   * @param experts ids of the experts of this rank, by local number
   * @param tokens by local number, since the buffer was opened
   * @param timeouts of the rank that saw this
   */
  public static RankObservation of(
      int ranks, List<Window> windows, int[] experts, long[] tokens, TimeoutLog timeouts) {
    long count = timeouts.count();
    return new RankObservation(
        timeouts.rank(), ranks, windows, experts, tokens, count, timeouts.peer());
  }

  private RankObservation(
      int rank,
      int ranks,
      List<Window> windows,
      int[] experts,
      long[] tokens,
      long timeouts,
      int timeoutPeer) {
    this.rank = rank;
    this.ranks = ranks;
    this.windows = List.copyOf(windows);
    this.experts = experts.clone();
    this.tokens = tokens.clone();
    this.timeouts = timeouts;
    this.timeoutPeer = timeoutPeer;
  }

  /** The rank that saw this. */
  public int rank() {
    return rank;
  }

  /** Number of ranks. */
  public int ranks() {
    return ranks;
  }

  /** The last complete windows, the oldest first. */
  public List<Window> windows() {
    return windows;
  }

  /** Number of experts on this rank. */
  public int localExperts() {
    return experts.length;
  }

  /** Id of the expert with local number {@code local}. */
  public int expert(int local) {
    return experts[local];
  }

  /** Tokens that dispatches have brought to that expert since the buffer was opened. */
  public long tokens(int local) {
    return tokens[local];
  }

  /**
   * Operations of this rank that ended in {@link org.ep4j.error.PeerTimeoutException} since the
   * buffer was opened.
   */
  public long timeouts() {
    return timeouts;
  }

  /** The rank that the last of them named; -1 before. */
  public int timeoutPeer() {
    return timeoutPeer;
  }

  /** As bytes, for {@link WorldObservation#decode}. */
  public byte[] encode() {
    ByteBuffer out = ByteBuffer.allocate((int) bytes(ranks, windows.size(), experts.length));
    out.putInt(rank).putInt(ranks).putInt(windows.size()).putInt(experts.length);
    out.putLong(timeouts).putInt(timeoutPeer);
    for (Window window : windows) {
      out.putLong(window.number).putLong(window.nanos).putLong(window.rows);
      for (long nanos : window.waited) {
        out.putLong(nanos);
      }
    }
    for (int local = 0; local < experts.length; local++) {
      out.putInt(experts[local]).putLong(tokens[local]);
    }
    return out.array();
  }

  private static long bytes(long ranks, long windows, long experts) {
    return HEADER + windows * Long.BYTES * (3 + ranks) + experts * (Integer.BYTES + Long.BYTES);
  }

  static RankObservation decode(byte[] bytes) {
    ByteBuffer in = ByteBuffer.wrap(bytes);
    boolean whole = bytes.length >= HEADER;
    int rank = whole ? in.getInt() : -1;
    int ranks = whole ? in.getInt() : 0;
    int count = whole ? in.getInt() : 0;
    int local = whole ? in.getInt() : 0;
    long timeouts = whole ? in.getLong() : 0;
    int timeoutPeer = whole ? in.getInt() : TimeoutLog.NONE;
    if (rank < 0
        || rank >= ranks
        || count < 0
        || local < 0
        || bytes.length != bytes(ranks, count, local)) {
      throw new InvalidArgumentException(
          ErrorCode.NO_OBSERVATION,
          "observation",
          bytes.length + " bytes",
          "what RankObservation.encode returned",
          "run one version of ep4j on all ranks");
    }
    List<Window> windows = new ArrayList<>();
    for (int w = 0; w < count; w++) {
      long number = in.getLong();
      long nanos = in.getLong();
      long rows = in.getLong();
      long[] waited = new long[ranks];
      in.asLongBuffer().get(waited);
      in.position(in.position() + 8 * ranks);
      windows.add(new Window(number, nanos, rows, waited));
    }
    int[] experts = new int[local];
    long[] tokens = new long[local];
    for (int i = 0; i < local; i++) {
      experts[i] = in.getInt();
      tokens[i] = in.getLong();
    }
    return new RankObservation(rank, ranks, windows, experts, tokens, timeouts, timeoutPeer);
  }

  @Override
  public String toString() {
    return "rank "
        + rank
        + " of "
        + ranks
        + ", "
        + windows.size()
        + " windows of "
        + ObservationLog.WINDOW
        + " operations";
  }
}
