package org.ep4j.engine.world;

import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.function.Consumer;
import java.util.function.Supplier;
import org.ep4j.config.BufferConfig;
import org.ep4j.error.ConfigurationMismatchException;
import org.ep4j.error.Ep4jException;
import org.ep4j.error.ErrorCode;
import org.ep4j.error.IllegalUseException;
import org.ep4j.group.Group;
import org.ep4j.group.PeerLostException;
import org.ep4j.memory.Participants;
import org.jspecify.annotations.Nullable;

/**
 * A group of the live ranks of a buffer that starts the buffer again, after a loss or to admit
 * restarted ranks. The first exchange of these ranks is here; the engine does the rest. Closes the
 * group unless {@link #keep} is called.
 */
public final class SurvivorAgreement implements AutoCloseable {
  /**
   * Purpose of the collectives that start a buffer again, the same for reset, readmit and rejoin:
   * the ranks compare which of them they call.
   */
  public static final String RESTARTING = "restarting a buffer";

  private final Participants participants;
  private final boolean[] gone;
  private final long[] highest;
  private final @Nullable Nodes nodes;
  private final Duration timeout;
  private boolean kept;

  private SurvivorAgreement(
      Participants participants,
      boolean[] gone,
      long[] highest,
      @Nullable Nodes nodes,
      Duration timeout) {
    this.timeout = timeout;
    this.participants = participants;
    this.gone = gone;
    this.highest = highest;
    this.nodes = nodes;
  }

  /**
   * First message of a rank.
   *
   * @param rank its number
   * @param words counters; the ranks continue with the highest value of each, in the same order on
   *     all ranks
   * @param nodes the nodes as the rank knows them; empty for a rank that rejoins
   * @param description its configuration; empty if no rank rejoins
   * @param problem why the rank cannot rejoin; empty if it can
   */
  private record Hello(int rank, long[] words, int[] nodes, byte[] description, byte[] problem) {
    Hello(int rank, long[] words, int[] nodes, byte[] description) {
      this(rank, words, nodes, description, new byte[0]);
    }

    byte[] encoded() {
      ByteBuffer bytes =
          ByteBuffer.allocate(
              16
                  + words.length * Long.BYTES
                  + nodes.length * Integer.BYTES
                  + problem.length
                  + description.length);
      bytes.putInt(rank).putInt(words.length).putInt(nodes.length).putInt(problem.length);
      for (long word : words) {
        bytes.putLong(word);
      }
      for (int node : nodes) {
        bytes.putInt(node);
      }
      return bytes.put(problem).put(description).array();
    }

    static Hello of(byte[] encoded) {
      ByteBuffer bytes = ByteBuffer.wrap(encoded);
      int rank = bytes.getInt();
      long[] words = new long[bytes.getInt()];
      int[] nodes = new int[bytes.getInt()];
      byte[] problem = new byte[bytes.getInt()];
      Arrays.setAll(words, i -> bytes.getLong());
      Arrays.setAll(nodes, i -> bytes.getInt());
      bytes.get(problem);
      byte[] description = new byte[bytes.remaining()];
      bytes.get(description);
      return new Hello(rank, words, nodes, description, problem);
    }
  }

  /**
   * Gathers the live ranks; collective among them.
   *
   * @param words counters of this rank; the ranks agree on the {@link #highest} of each
   * @throws IllegalUseException if a restarted process waits for readmission
   */
  public static SurvivorAgreement ofSurvivors(
      Group group, Members members, Duration timeout, long... words) {
    requireNoReplacement(members);
    return of(group, timeout, new Hello(group.rank(), words, new int[0], new byte[0]));
  }

  /**
   * Requires that no restarted process waits for readmission.
   *
   * @throws IllegalUseException if one waits
   */
  public static void requireNoReplacement(Members members) {
    if (members.anyIsBack()) {
      throw new IllegalUseException(
          ErrorCode.READMIT_NEEDED,
          "a restarted process has replaced a rank of the buffer: call readmit() instead of"
              + " reset() on all ranks that have the buffer");
    }
  }

  /**
   * Gathers the live ranks and the ranks that rejoin, which call {@link #ofNewcomer}.
   *
   * @param nodes of the buffer
   * @throws IllegalUseException if no rank has been readmitted into the group
   * @throws ConfigurationMismatchException if a rank that rejoins has another configuration
   * @throws PeerLostException if all ranks that rejoin have died again
   */
  public static SurvivorAgreement withNewcomers(
      Group group, Members members, BufferConfig config, Nodes nodes, long... words) {
    if (!members.anyIsReplaced()) {
      throw new IllegalUseException(
          ErrorCode.NOTHING_TO_READMIT,
          "no restarted rank waits for readmission: call Group.readmit() on all live ranks"
              + " first");
    }
    byte[] description = ConfigAgreement.describe(group, config);
    Hello hello = new Hello(group.rank(), words, nodes.words(), description);
    return of(group, config.timeout().multipliedBy(2), hello);
  }

  /** A rank that rejoins. */
  public static SurvivorAgreement ofNewcomer(Group group, BufferConfig config, int words) {
    byte[] description = ConfigAgreement.describe(group, config);
    Hello hello = new Hello(group.rank(), new long[words], new int[0], description);
    return of(group, config.timeout().multipliedBy(2), hello);
  }

  /**
   * Does what a rank that rejoins needs before it meets the ranks that have the buffer. They wait
   * for it in {@link #withNewcomers}, and learn there at once that it cannot come; their buffer is
   * unchanged then.
   */
  public static <T> T prepared(Group group, Duration timeout, Supplier<T> preparation) {
    try {
      return preparation.get();
    } catch (RuntimeException | Error e) { // also memory that runs out
      AgreedStep.suppressing(e, () -> cancel(group, timeout.multipliedBy(2), AgreedStep.text(e)));
      throw e;
    }
  }

  /** Tells the ranks that have the buffer that this rank cannot rejoin. */
  private static void cancel(Group group, Duration timeout, String problem) {
    byte[] text = problem.getBytes(StandardCharsets.UTF_8);
    Hello mine = new Hello(group.rank(), new long[0], new int[0], new byte[0], text);
    try (Group live = group.survivors(timeout)) {
      live.together(RESTARTING, () -> live.allGather(mine.encoded(), timeout));
    }
  }

  private static SurvivorAgreement of(Group group, Duration timeout, Hello mine) {
    Group live = group.survivors(timeout);
    boolean done = false;
    try {
      // The purpose keeps bytes apart that a rank sends among survivors of its own making.
      byte[][] all = live.together(RESTARTING, () -> live.allGather(mine.encoded(), timeout));
      Hello[] hellos = Arrays.stream(all).map(Hello::of).toArray(Hello[]::new);
      SurvivorAgreement agreement = of(live, group.size(), hellos, timeout);
      done = true;
      return agreement;
    } finally {
      if (!done) {
        live.close();
      }
    }
  }

  private static SurvivorAgreement of(Group live, int ranks, Hello[] hellos, Duration timeout) {
    int[] numbers = Arrays.stream(hellos).mapToInt(Hello::rank).toArray();
    boolean[] gone = new boolean[ranks];
    boolean[] newcomers = new boolean[ranks];
    Arrays.fill(gone, true);
    for (Hello hello : hellos) {
      if (hello.problem.length > 0) {
        throw new Ep4jException(
            ErrorCode.PEER_FAILED,
            "rank %d cannot rejoin: %s"
                .formatted(hello.rank, new String(hello.problem, StandardCharsets.UTF_8)));
      }
    }
    long[] highest = new long[hellos[0].words.length];
    for (Hello hello : hellos) {
      if (hello.description.length == 0 != (hellos[0].description.length == 0)) {
        throw new ConfigurationMismatchException(
            ErrorCode.RESET_AND_READMIT_MIXED,
            "some ranks call reset() and others readmit(): call the same method on all live"
                + " ranks");
      }
      gone[hello.rank] = false;
      newcomers[hello.rank] = hello.description.length > 0 && hello.nodes.length == 0;
      for (int i = 0; i < highest.length; i++) {
        highest[i] = Math.max(highest[i], hello.words[i]);
      }
    }
    boolean together = hellos[0].description.length > 0;
    Nodes nodes = together ? nodes(hellos, newcomers) : null;
    return new SurvivorAgreement(
        new Participants(live, numbers, newcomers), gone, highest, nodes, timeout);
  }

  /**
   * Compares the ranks that rejoin with the ranks that have the buffer; returns the nodes of the
   * latter.
   */
  private static Nodes nodes(Hello[] hellos, boolean[] newcomers) {
    Hello reference = null;
    int back = 0;
    for (Hello hello : hellos) {
      if (newcomers[hello.rank]) {
        back++;
      } else if (reference == null) {
        reference = hello;
      }
    }
    if (reference == null) {
      throw new PeerLostException(
          ErrorCode.BUFFER_LOST,
          "rejoin: no live rank has the buffer: open a new buffer on all ranks",
          -1);
    }
    if (back == 0) {
      throw new PeerLostException(
          ErrorCode.REJOINING_RANK_LOST,
          "readmit: the restarted ranks have died again; the buffer is unchanged: start"
              + " them again and repeat readmit()",
          -1);
    }
    List<String> differences = new ArrayList<>();
    Nodes nodes = Nodes.of(reference.nodes);
    for (Hello hello : hellos) {
      ConfigAgreement.compare(
          reference.description, reference.rank, hello.description, hello.rank, differences);
    }
    if (differences.isEmpty()) {
      int[] ranks = Arrays.stream(hellos).mapToInt(Hello::rank).toArray();
      String[] hosts =
          Arrays.stream(hellos)
              .map(hello -> ConfigAgreement.hostOf(hello.description))
              .toArray(String[]::new);
      compareHosts(ranks, hosts, nodes, differences);
    }
    if (!differences.isEmpty()) {
      throw new ConfigurationMismatchException(
          ErrorCode.CONFIGURATIONS_DIFFER,
          "a rank cannot rejoin the buffer: " + String.join("; ", differences));
    }
    return nodes;
  }

  /** Ranks that shared a host still do. */
  static void compareHosts(int[] ranks, String[] hosts, Nodes nodes, List<String> differences) {
    for (int i = 1; i < ranks.length; i++) {
      if (nodes.shareHost(ranks[i - 1], ranks[i]) && !hosts[i - 1].equals(hosts[i])) {
        differences.add(
            "ranks %d and %d share memory, but now run on different hosts: restart the rank on"
                    .formatted(ranks[i - 1], ranks[i])
                + " the host of its node");
      }
    }
  }

  /** The ranks that take part. */
  public Participants participants() {
    return participants;
  }

  /** Their group. */
  public Group live() {
    return participants.group();
  }

  /** By rank, whether the rank is dead. */
  public boolean[] gone() {
    return gone.clone();
  }

  /** Timeout of each step. */
  public Duration timeout() {
    return timeout;
  }

  /**
   * Reports the outcome of a step to the other ranks; collective.
   *
   * @param problem empty, or the failure on this rank
   * @throws Ep4jException on all ranks if the step failed on one; names that rank
   */
  public void agree(String problem, Duration timeout) {
    byte[][] all = live().allGather(problem.getBytes(StandardCharsets.UTF_8), timeout);
    for (int i = 0; i < all.length; i++) {
      if (all[i].length > 0) {
        throw new Ep4jException(
            ErrorCode.PEER_FAILED,
            "rank " + participants.number(i) + ": " + new String(all[i], StandardCharsets.UTF_8));
      }
    }
  }

  /**
   * Does a step that can fail on this rank alone; collective, with {@link #agree} on the ranks that
   * have nothing to do.
   *
   * @param undo frees the result of this rank if another one has failed
   * @throws Ep4jException naming another rank that failed; a rank that failed itself gets its own
   *     exception
   */
  public <T> T step(Supplier<T> step, Consumer<T> undo) {
    return step(timeout, step, undo);
  }

  /**
   * The same step with a limit of its own.
   *
   * @param limit how long a rank waits for the others
   */
  public <T> T step(Duration limit, Supplier<T> step, Consumer<T> undo) {
    return AgreedStep.run(problem -> agree(problem, limit), step, undo);
  }

  /** The highest value that a rank has passed for a word. */
  public long highest(int word) {
    return highest[word];
  }

  /** The nodes of the buffer, when ranks rejoin. */
  public Nodes nodes() {
    if (nodes == null) {
      throw new IllegalStateException("no rank rejoins");
    }
    return nodes;
  }

  /** Passes ownership of the group to the caller, which closes it. */
  public Group keep() {
    kept = true;
    return live();
  }

  @Override
  public void close() {
    if (!kept) {
      live().close();
    }
  }
}
