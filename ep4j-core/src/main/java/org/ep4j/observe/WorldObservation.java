package org.ep4j.observe;

import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.TreeMap;
import java.util.function.LongToDoubleFunction;
import java.util.stream.IntStream;
import org.ep4j.error.ErrorCode;
import org.ep4j.error.InvalidArgumentException;
import org.ep4j.group.Group;
import org.jspecify.annotations.Nullable;

/**
 * What all ranks of a job have seen: the wait matrix, the load of the experts, and a {@link
 * Verdict}. Immutable.
 */
public final class WorldObservation {
  /** Windows that a verdict needs. */
  public static final int MIN_WINDOWS = 3;

  /** Share of the windows in which the same rank is the latest. */
  private static final double AGREEMENT = 0.7;

  /** Share of an operation that would be saved without the cause. */
  private static final double SHARE = 0.15;

  /** Share of its lateness that a rank must have waited for one sender to be excused. */
  private static final double EXCUSED = 0.5;

  /** By how much the wait for the sender of a slow link exceeds those for other ranks. */
  private static final double ALONE = 2;

  /** Rows of an overloaded rank, as a multiple of the mean of the others. */
  private static final double OVERLOAD = 1.5;

  private final int ranks;

  /** By rank; null for ranks that took no part. */
  private final @Nullable RankObservation[] of;

  /** Numbers of the windows that all these ranks have, ascending. */
  private final long[] windows;

  private WorldObservation(List<RankObservation> observations) {
    if (observations.isEmpty()) {
      throw new InvalidArgumentException(
          ErrorCode.NO_OBSERVATION, "observations", "[]", "one rank's at least", "ask a rank");
    }
    ranks = observations.getFirst().ranks();
    of = new @Nullable RankObservation[ranks];
    for (RankObservation each : observations) {
      if (each.ranks() != ranks) {
        throw new InvalidArgumentException(
            ErrorCode.NO_OBSERVATION,
            "observations",
            "of buffers with " + ranks + " and with " + each.ranks() + " ranks",
            "of one buffer",
            "pass the observations of the same buffer on all ranks");
      }
      of[each.rank()] = each;
    }
    windows =
        observations.getFirst().windows().stream()
            .mapToLong(RankObservation.Window::number)
            .filter(number -> observations.stream().allMatch(o -> window(o, number) != null))
            .toArray();
  }

  /**
   * Gathers the observations of all ranks; collective.
   *
   * @param group of the buffer, or the survivors of it
   * @param mine from {@link org.ep4j.ExpertBuffer#observe()} of this rank
   * @param timeout maximum wait for the other ranks
   * @throws org.ep4j.group.GroupException if ranks are missing, as {@link Group#allGather}
   */
  public static WorldObservation gather(Group group, RankObservation mine, Duration timeout) {
    List<RankObservation> all = new ArrayList<>();
    for (byte[] each : group.allGather(mine.encode(), timeout)) {
      all.add(RankObservation.decode(each));
    }
    return new WorldObservation(all);
  }

  /**
   * From what an observer of the job has received.
   *
   * @param encoded of one buffer, one array a rank, at least one
   * @throws InvalidArgumentException if an array is no observation, or they are of several buffers
   */
  public static WorldObservation decode(Collection<byte[]> encoded) {
    return new WorldObservation(encoded.stream().map(RankObservation::decode).toList());
  }

  /**
   * From observations of one buffer on its ranks, at least one, in any order.
   *
   * @throws InvalidArgumentException if there is none, or they are of several buffers
   */
  public static WorldObservation of(List<RankObservation> observations) {
    return new WorldObservation(List.copyOf(observations));
  }

  /** Number of ranks of the buffer. */
  public int ranks() {
    return ranks;
  }

  /** The ranks whose observations these are, ascending. */
  public List<Integer> observed() {
    return IntStream.range(0, ranks).filter(r -> of[r] != null).boxed().toList();
  }

  /** Operations that the wait matrix covers: at most the last 200. */
  public int operations() {
    return windows.length * ObservationLog.WINDOW;
  }

  /**
   * Nanoseconds that {@code waiter} waits for {@code peer} in an operation: the lower median over
   * the windows, so that a pause of a few operations does not count; 0 before the first window.
   */
  public double waitedNanos(int waiter, int peer) {
    return median(number -> waited(waiter, peer, number));
  }

  /** Nanoseconds from an operation to the next: the lower median over the windows. */
  public double periodNanos() {
    return median(this::period);
  }

  /**
   * Tokens that each physical expert has received since the buffer was opened; by physical id,
   * ascending. A rank that did not answer has no entries. In an array by physical id, {@link
   * org.ep4j.routing.ReplicatedPlacement#logicalLoad} folds replicas.
   */
  public Map<Integer, Long> tokensOfExperts() {
    Map<Integer, Long> tokens = new TreeMap<>();
    for (RankObservation each : of) {
      for (int local = 0; each != null && local < each.localExperts(); local++) {
        tokens.put(each.expert(local), each.tokens(local));
      }
    }
    return tokens;
  }

  /** Tokens that the experts of a rank have received since the buffer was opened. */
  public long tokensOfRank(int rank) {
    RankObservation observation = of[rank];
    long sum = 0;
    for (int local = 0; observation != null && local < observation.localExperts(); local++) {
      sum += observation.tokens(local);
    }
    return sum;
  }

  /** Operations of a rank that ended in a timeout since the buffer was opened. */
  public long timeoutsOfRank(int rank) {
    RankObservation observation = of[rank];
    return observation == null ? 0 : observation.timeouts();
  }

  /** The rank that the last timeout of {@code rank} named; -1 without one. */
  public int timeoutPeerOfRank(int rank) {
    RankObservation observation = of[rank];
    return observation == null ? TimeoutLog.NONE : observation.timeoutPeer();
  }

  /**
   * Mean tokens of a rank divided by those of the busiest: 1 is perfect, 1 / ranks the worst. 1
   * before the first dispatch.
   */
  public double balancedness() {
    long max = 0;
    double sum = 0;
    for (int r = 0; r < ranks; r++) {
      max = Math.max(max, tokensOfRank(r));
      sum += tokensOfRank(r);
    }
    return max == 0 ? 1 : sum / ranks / max;
  }

  /**
   * What makes the ranks wait. A cause is one without which an operation would take 15 % less,
   * until the next rank is awaited; its rank is the latest in seven of ten windows.
   */
  public Verdict verdict() {
    if (windows.length < MIN_WINDOWS || present() < 2) {
      return new Verdict(Verdict.Cause.TOO_EARLY, -1, -1, 0, 0, 0);
    }
    double[][] waits = new double[ranks][ranks];
    for (int i = 0; i < ranks; i++) {
      for (int j = 0; j < ranks; j++) {
        waits[i][j] = waitedNanos(i, j);
      }
    }
    double[] lateness = new double[ranks];
    int latest = -1;
    for (int r = 0; r < ranks; r++) {
      lateness[r] = of[r] == null ? 0 : lateness(waits, r);
      if (of[r] != null && (latest < 0 || lateness[r] > lateness[latest])) {
        latest = r;
      }
    }
    double second = 0;
    for (int r = 0; r < ranks; r++) {
      second = r == latest ? second : Math.max(second, lateness[r]);
    }
    double late = lateness[latest];
    double cost = late - second;
    double share = cost / periodNanos();
    double agreement = agreement(latest);
    if (share < SHARE || agreement < AGREEMENT) {
      return new Verdict(Verdict.Cause.NONE, -1, -1, 0, 0, agreement);
    }
    int sender = longestAwaited(waits, latest, lateness);
    if (sender >= 0
        && waits[latest][sender] - lateness[sender] >= EXCUSED * late
        && standsOut(waits[latest], sender)) {
      return new Verdict(Verdict.Cause.SLOW_LINK, latest, sender, cost, share, agreement);
    }
    boolean overloaded = rows(latest) >= OVERLOAD * meanRowsOfOthers(latest);
    return new Verdict(
        overloaded ? Verdict.Cause.SKEW : Verdict.Cause.SLOW_RANK,
        latest,
        -1,
        cost,
        share,
        agreement);
  }

  private double median(LongToDoubleFunction ofWindow) {
    if (windows.length == 0) {
      return 0;
    }
    double[] values = Arrays.stream(windows).mapToDouble(ofWindow).sorted().toArray();
    return values[(values.length - 1) / 2];
  }

  /** Share of the windows in which no rank is later. */
  private double agreement(int rank) {
    long latest =
        Arrays.stream(windows)
            .filter(
                number -> {
                  Waits waits = (i, j) -> waited(i, j, number);
                  double late = lateness(waits, rank);
                  return observed().stream().allMatch(r -> lateness(waits, r) <= late);
                })
            .count();
    return (double) latest / windows.length;
  }

  /** The rank for which {@code waiter} waits most beyond what others wait for it; -1 for none. */
  private int longestAwaited(double[][] waits, int waiter, double[] lateness) {
    int longest = -1;
    double excess = 0;
    for (int r = 0; r < ranks; r++) {
      double more = r == waiter ? 0 : waits[waiter][r] - lateness[r];
      if (more > excess) {
        excess = more;
        longest = r;
      }
    }
    return longest;
  }

  /** Whether a rank waits for one sender alone: one that is stopped seems to wait for all. */
  private static boolean standsOut(double[] waits, int sender) {
    for (int r = 0; r < waits.length; r++) {
      if (r != sender && waits[sender] < ALONE * waits[r]) {
        return false;
      }
    }
    return true;
  }

  /** The wait of one rank for another one. */
  @FunctionalInterface
  private interface Waits {
    double of(int waiter, int peer);
  }

  private double lateness(double[][] waits, int peer) {
    return lateness((i, j) -> waits[i][j], peer);
  }

  /** What a rank makes the others wait in an operation: the lower median over them. */
  private double lateness(Waits waits, int peer) {
    double[] ofOthers = new double[present() - 1];
    int i = 0;
    for (int r = 0; r < ranks; r++) {
      if (r != peer && of[r] != null) {
        ofOthers[i++] = waits.of(r, peer);
      }
    }
    Arrays.sort(ofOthers);
    return ofOthers[(ofOthers.length - 1) / 2];
  }

  private double waited(int waiter, int peer, long number) {
    RankObservation observation = of[waiter];
    RankObservation.Window window = observation == null ? null : window(observation, number);
    return window == null ? 0 : (double) window.waitedFor(peer) / ObservationLog.WINDOW;
  }

  private double period(long number) {
    double sum = 0;
    for (RankObservation each : of) {
      RankObservation.Window window = each == null ? null : window(each, number);
      sum += window == null ? 0 : window.nanos();
    }
    return Math.max(1, sum / present() / ObservationLog.WINDOW);
  }

  private double rows(int rank) {
    RankObservation observation = of[rank];
    double sum = 0;
    for (long number : windows) {
      RankObservation.Window window = observation == null ? null : window(observation, number);
      sum += window == null ? 0 : window.rows();
    }
    return sum;
  }

  private double meanRowsOfOthers(int rank) {
    double sum = 0;
    for (int r = 0; r < ranks; r++) {
      sum += r == rank ? 0 : rows(r);
    }
    return Math.max(1, sum / (present() - 1));
  }

  private int present() {
    int count = 0;
    for (RankObservation each : of) {
      count += each == null ? 0 : 1;
    }
    return count;
  }

  private static RankObservation.@Nullable Window window(RankObservation observation, long number) {
    List<RankObservation.Window> windows = observation.windows();
    int place = windows.isEmpty() ? -1 : (int) (number - windows.getFirst().number());
    return place < 0 || place >= windows.size() ? null : windows.get(place);
  }

  /** The wait matrix in microseconds of an operation, and the verdict. */
  @Override
  public String toString() {
    StringBuilder text = new StringBuilder("waits in us of an operation: row waits for column\n");
    for (int i = 0; i < ranks; i++) {
      text.append(String.format(Locale.ROOT, "%6d", i));
      for (int j = 0; j < ranks; j++) {
        text.append(String.format(Locale.ROOT, " %8.1f", waitedNanos(i, j) / 1e3));
      }
      text.append('\n');
    }
    return text.append(verdict()).toString();
  }
}
