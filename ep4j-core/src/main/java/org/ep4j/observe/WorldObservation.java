package org.ep4j.observe;

import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.ep4j.group.Group;

/**
 * What all ranks of a job have seen: the wait matrix, the load of the experts, and a {@link
 * Verdict}. Immutable.
 */
public final class WorldObservation {
  /** Windows that a verdict needs. */
  public static final int MIN_WINDOWS = 3;

  private final int ranks;

  /** By rank; null for ranks that took no part. */
  private final RankObservation[] of;

  /** Numbers of the windows that all these ranks have, ascending. */
  private final long[] windows;

  private WorldObservation(List<RankObservation> observations) {
    ranks = observations.getFirst().ranks();
    of = new RankObservation[ranks];
    for (RankObservation each : observations) {
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

  /** From observations of the ranks of one job, at least one, in any order. */
  public static WorldObservation of(List<RankObservation> observations) {
    return new WorldObservation(List.copyOf(observations));
  }

  /** Number of ranks of the buffer. */
  public int ranks() {
    return ranks;
  }

  /** Operations that the wait matrix covers: at most the last 200. */
  public int operations() {
    return windows.length * ObservationLog.WINDOW;
  }

  /** Nanoseconds that {@code waiter} waited for {@code peer} in an operation, on average. */
  public double waitedNanos(int waiter, int peer) {
    double sum = 0;
    for (long number : windows) {
      sum += waited(waiter, peer, number);
    }
    return windows.length == 0 ? 0 : sum / windows.length;
  }

  /** Nanoseconds from an operation to the next, on average. */
  public double periodNanos() {
    double sum = 0;
    for (long number : windows) {
      sum += period(number);
    }
    return windows.length == 0 ? 0 : sum / windows.length;
  }

  /** Tokens that each expert has received since the buffer was opened; by expert id. */
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
   * What makes the ranks wait: what at least three in five windows show alone. A cause counts in a
   * window if it takes a tenth of the time of an operation.
   */
  public Verdict verdict() {
    if (windows.length < MIN_WINDOWS || present() < 2) {
      return new Verdict(Verdict.Cause.TOO_EARLY, -1, -1, 0, 0, 0);
    }
    List<Verdict> all = Arrays.stream(windows).mapToObj(this::verdictOf).toList();
    Verdict best = null;
    long most = 0;
    for (Verdict candidate : all) {
      long same = all.stream().filter(v -> same(v, candidate)).count();
      if (same > most) {
        most = same;
        best = candidate;
      }
    }
    double agreement = (double) most / all.size();
    if (best == null || best.cause() == Verdict.Cause.NONE || agreement < AGREEMENT) {
      return new Verdict(Verdict.Cause.NONE, -1, -1, 0, 0, agreement);
    }
    Verdict cause = best;
    double nanos =
        all.stream()
            .filter(v -> same(v, cause))
            .mapToDouble(Verdict::waitedNanos)
            .average()
            .orElseThrow();
    return new Verdict(
        cause.cause(), cause.rank(), cause.sender(), nanos, nanos / periodNanos(), agreement);
  }

  private static final double AGREEMENT = 0.6;

  /** Share of an operation that a cause takes at least. */
  private static final double SHARE = 0.1;

  /** By how much the latest rank exceeds the second one. */
  private static final double STANDS_OUT = 3;

  /** Share of its lateness that a rank must have waited for one sender to be excused. */
  private static final double EXCUSED = 0.5;

  /** Rows of an overloaded rank, as a multiple of the mean of the others. */
  private static final double OVERLOAD = 1.5;

  private static boolean same(Verdict a, Verdict b) {
    return a.cause() == b.cause() && a.rank() == b.rank() && a.sender() == b.sender();
  }

  private Verdict verdictOf(long number) {
    double[] lateness = new double[ranks];
    int latest = -1;
    for (int r = 0; r < ranks; r++) {
      lateness[r] = of[r] == null ? 0 : lateness(r, number);
      if (of[r] != null && (latest < 0 || lateness[r] > lateness[latest])) {
        latest = r;
      }
    }
    double second = 0;
    for (int r = 0; r < ranks; r++) {
      second = r == latest ? second : Math.max(second, lateness[r]);
    }
    double late = lateness[latest];
    double share = late / period(number);
    int sender = mostAwaited(latest, lateness, number);
    double excess = sender < 0 ? 0 : waited(latest, sender, number) - lateness[sender];
    boolean stands = share >= SHARE && late >= STANDS_OUT * second;
    if (!stands) {
      return new Verdict(Verdict.Cause.NONE, -1, -1, 0, 0, 1);
    }
    if (excess >= EXCUSED * late) {
      return new Verdict(Verdict.Cause.SLOW_LINK, latest, sender, late, share, 1);
    }
    boolean overloaded = rows(latest, number) >= OVERLOAD * meanRowsOfOthers(latest, number);
    return new Verdict(
        overloaded ? Verdict.Cause.SKEW : Verdict.Cause.SLOW_RANK, latest, -1, late, share, 1);
  }

  /** The rank for which {@code waiter} waits most beyond what others wait for it. */
  private int mostAwaited(int waiter, double[] lateness, long number) {
    int most = -1;
    double excess = 0;
    for (int r = 0; r < ranks; r++) {
      double more = r == waiter ? 0 : waited(waiter, r, number) - lateness[r];
      if (more > excess) {
        excess = more;
        most = r;
      }
    }
    return most;
  }

  /** What a rank makes the others wait in an operation: the lower median over them. */
  private double lateness(int peer, long number) {
    double[] waits = new double[present() - 1];
    int i = 0;
    for (int r = 0; r < ranks; r++) {
      if (r != peer && of[r] != null) {
        waits[i++] = waited(r, peer, number);
      }
    }
    Arrays.sort(waits);
    return waits[(waits.length - 1) / 2];
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

  private double rows(int rank, long number) {
    RankObservation observation = of[rank];
    RankObservation.Window window = observation == null ? null : window(observation, number);
    return window == null ? 0 : window.rows();
  }

  private double meanRowsOfOthers(int rank, long number) {
    double sum = 0;
    for (int r = 0; r < ranks; r++) {
      sum += r == rank ? 0 : rows(r, number);
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

  private static RankObservation.Window window(RankObservation observation, long number) {
    List<RankObservation.Window> windows = observation.windows();
    int place = windows.isEmpty() ? -1 : (int) (number - windows.getFirst().number());
    return place < 0 || place >= windows.size() ? null : windows.get(place);
  }

  /** The wait matrix in microseconds of an operation, and the verdict. */
  @Override
  public String toString() {
    StringBuilder text = new StringBuilder("waits in us of an operation: row waits for column\n");
    for (int i = 0; i < ranks; i++) {
      text.append(String.format("%6d", i));
      for (int j = 0; j < ranks; j++) {
        text.append(String.format(" %8.1f", waitedNanos(i, j) / 1e3));
      }
      text.append('\n');
    }
    return text.append(verdict()).toString();
  }
}
