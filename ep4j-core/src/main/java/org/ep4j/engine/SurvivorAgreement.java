package org.ep4j.engine;

import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import org.ep4j.BufferConfig;
import org.ep4j.ConfigurationMismatchException;
import org.ep4j.Ep4jException;
import org.ep4j.group.Group;
import org.ep4j.group.PeerLostException;
import org.ep4j.memory.Participants;
import org.jspecify.annotations.Nullable;

/**
 * The live ranks of a buffer found together in a group of their own, to begin anew: after a loss,
 * or to take in restarted ranks. What they tell each other first is here; what follows is the
 * engine's. Until {@link #keep} it closes the group.
 */
public final class SurvivorAgreement implements AutoCloseable {
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
   * What a rank says first.
   *
   * @param rank its number
   * @param words what the ranks are to go on with the highest of, all of them in the same order
   * @param nodes the nodes as it knows them; empty if it is new
   * @param description its configuration; empty if nobody is new
   */
  private record Hello(int rank, long[] words, int[] nodes, byte[] description) {
    byte[] encoded() {
      ByteBuffer bytes =
          ByteBuffer.allocate(
              12 + words.length * Long.BYTES + nodes.length * Integer.BYTES + description.length);
      bytes.putInt(rank).putInt(words.length).putInt(nodes.length);
      for (long word : words) {
        bytes.putLong(word);
      }
      for (int node : nodes) {
        bytes.putInt(node);
      }
      return bytes.put(description).array();
    }

    static Hello of(byte[] encoded) {
      ByteBuffer bytes = ByteBuffer.wrap(encoded);
      int rank = bytes.getInt();
      long[] words = new long[bytes.getInt()];
      int[] nodes = new int[bytes.getInt()];
      Arrays.setAll(words, i -> bytes.getLong());
      Arrays.setAll(nodes, i -> bytes.getInt());
      byte[] description = new byte[bytes.remaining()];
      bytes.get(description);
      return new Hello(rank, words, nodes, description);
    }
  }

  /**
   * Gathers the ranks that are left; collective among them.
   *
   * @param words of this rank, of which {@link #highest} is agreed on
   * @throws IllegalStateException if a restarted process waits to be taken in
   */
  public static SurvivorAgreement ofSurvivors(
      Group group, Members members, Duration timeout, long... words) {
    requireNoReplacement(members);
    return of(group, timeout, new Hello(group.rank(), words, new int[0], new byte[0]));
  }

  /**
   * Refuses to begin anew without a restarted process that waits to be taken in.
   *
   * @throws IllegalStateException if there is one
   */
  public static void requireNoReplacement(Members members) {
    if (members.anyIsBack()) {
      throw new IllegalStateException(
          "a restarted process has taken the place of a rank: call readmit() on all ranks that have"
              + " the buffer, which does what reset() does, and takes it in");
    }
  }

  /**
   * The same with those that come back, which call {@link #ofNewcomer}.
   *
   * @param nodes of the buffer
   * @throws IllegalStateException if nobody has come back into the group
   * @throws ConfigurationMismatchException if one that comes back has another configuration
   * @throws PeerLostException if all that have come back are gone again
   */
  public static SurvivorAgreement withNewcomers(
      Group group, Members members, BufferConfig config, Nodes nodes, long... words) {
    if (!members.anyIsReplaced()) {
      throw new IllegalStateException(
          "no rank has come back: Group.readmit() first, on all live ranks");
    }
    byte[] description = ConfigAgreement.describe(group, config);
    Hello hello = new Hello(group.rank(), words, nodes.words(), description);
    return of(group, config.timeout().multipliedBy(2), hello);
  }

  /** A rank that comes back. */
  public static SurvivorAgreement ofNewcomer(Group group, BufferConfig config, int words) {
    byte[] description = ConfigAgreement.describe(group, config);
    Hello hello = new Hello(group.rank(), new long[words], new int[0], description);
    return of(group, config.timeout().multipliedBy(2), hello);
  }

  private static SurvivorAgreement of(Group group, Duration timeout, Hello mine) {
    Group live = group.survivors(timeout);
    boolean done = false;
    try {
      byte[][] all = live.allGather(mine.encoded(), timeout);
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
    long[] highest = new long[hellos[0].words.length];
    for (Hello hello : hellos) {
      if (hello.description.length == 0 != (hellos[0].description.length == 0)) {
        throw new ConfigurationMismatchException(
            "some ranks call reset(), others readmit(); all must call the same");
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

  /** Checks that those who come back fit to those who are there; the nodes of the latter. */
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
          "rejoin: no rank that is alive has the buffer any more: open it anew on all ranks", -1);
    }
    if (back == 0) {
      throw new PeerLostException(
          "readmit: the ranks that have come back are gone again; the buffer is as it was", -1);
    }
    List<String> differences = new ArrayList<>();
    Nodes nodes = Nodes.of(reference.nodes);
    for (Hello hello : hellos) {
      ConfigAgreement.compare(
          reference.description, reference.rank, hello.description, hello.rank, differences);
    }
    if (differences.isEmpty()) {
      compareHosts(hellos, nodes, differences);
    }
    if (!differences.isEmpty()) {
      throw new ConfigurationMismatchException(
          "a rank cannot come back to the buffer: " + String.join("; ", differences));
    }
    return nodes;
  }

  private static void compareHosts(Hello[] hellos, Nodes nodes, List<String> differences) {
    for (int i = 1; i < hellos.length; i++) {
      Hello one = hellos[i - 1];
      Hello other = hellos[i];
      boolean sameHost =
          ConfigAgreement.hostOf(one.description).equals(ConfigAgreement.hostOf(other.description));
      if (nodes.together(one.rank, other.rank) && !sameHost) {
        differences.add(
            "ranks %d and %d share memory, but run on different hosts now: a rank must come back on"
                    .formatted(one.rank, other.rank)
                + " the host of its node");
      }
    }
  }

  /** Who takes part. */
  public Participants participants() {
    return participants;
  }

  /** Their group. */
  public Group live() {
    return participants.group();
  }

  /** By rank, whether it is gone. */
  public boolean[] gone() {
    return gone.clone();
  }

  /** How long to wait in each step. */
  public Duration timeout() {
    return timeout;
  }

  /**
   * Tells the others how a step went; collective.
   *
   * @param problem empty, or what went wrong here
   * @throws Ep4jException on all ranks if something went wrong on one; names it
   */
  public void agree(String problem, Duration timeout) {
    byte[][] all = live().allGather(problem.getBytes(StandardCharsets.UTF_8), timeout);
    for (int i = 0; i < all.length; i++) {
      if (all[i].length > 0) {
        throw new Ep4jException(
            "rank " + participants.number(i) + ": " + new String(all[i], StandardCharsets.UTF_8));
      }
    }
  }

  /** Of each word, the highest that a rank has passed. */
  public long highest(int word) {
    return highest[word];
  }

  /** The nodes of the buffer, where some come back. */
  public Nodes nodes() {
    if (nodes == null) {
      throw new IllegalStateException("nobody has come back");
    }
    return nodes;
  }

  /** From now on somebody else closes the group. */
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
