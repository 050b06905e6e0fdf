package org.ep4j.group;

import java.net.InetAddress;
import java.time.Duration;
import java.util.List;
import org.jspecify.annotations.Nullable;

/**
 * The ranks of one job: who is there.
 *
 * <p>Thread rule: collectives ({@link #allGather}, {@link #barrier}, {@link #survivors}, {@link
 * #readmit}) are called by one thread per rank, in the same order on all ranks. Everything else may
 * be called from any thread.
 *
 * <p>Departed ranks: a rank that closed its group has <em>left</em>; a rank whose process or thread
 * ended, fell silent, or called {@link #fail} is <em>lost</em>. Neither is alive any more, and a
 * collective that still lacks its part ends in {@link PeerLostException} on all other ranks at
 * once. {@link #survivors} makes a smaller group of those that remain.
 *
 * <p>Restarted ranks: a new process takes the place of a departed rank by {@link #rejoin}, once the
 * live ranks call {@link #readmit}. It is the same rank in another incarnation ({@link
 * #incarnation}): nothing that the old process did or still does is taken for the new one's.
 *
 * <p>Timeouts: a collective that ended in {@link GroupTimeoutException} counts as called. The rank
 * has done its part, the others may still complete theirs with it, and the next call is the next
 * collective.
 */
public interface Group extends AutoCloseable {
  /** Most bytes a rank may pass to {@link #allGather}: 1 MiB. */
  int MAX_CONTRIBUTION = 1 << 20;

  /** This rank, from 0 to {@code size() - 1}. */
  int rank();

  /** Number of ranks, departed ones included. */
  int size();

  /**
   * Name of the job: the same on all ranks, different from every other job of these hosts. Only
   * characters {@code 0-9 a-z -}, at most 40, so it may be part of a file name.
   */
  String jobId();

  /** Whether all ranks are threads of this JVM. */
  boolean inProcess();

  /** What the ranks of this job know and nobody else: for connections that they make themselves. */
  JobKey key();

  /** Where the host of a rank is reached from here, as far as the rendezvous can tell. */
  InetAddress address(int rank);

  /**
   * Collective: every rank gives some bytes and gets those of all ranks.
   *
   * @param mine at most {@link #MAX_CONTRIBUTION} bytes; lengths may differ between ranks; copied
   * @return one array per rank, in rank order, owned by the caller
   * @throws PeerLostException if a rank departed before it did its part
   * @throws GroupTimeoutException if ranks are missing after {@code timeout}; names them
   * @throws GroupException if another rank called another collective in its place
   * @throws IllegalStateException if this group is closed
   */
  byte[][] allGather(byte[] mine, Duration timeout);

  /**
   * Collective: returns once all ranks have called it. Errors as {@link #allGather}.
   *
   * @param timeout how long to wait for the others
   */
  void barrier(Duration timeout);

  /**
   * Whether a rank is still here, as far as this rank knows. A volatile read without allocation:
   * made for spin loops.
   */
  boolean isAlive(int rank);

  /** How and when a rank's departure was noticed; null while it is alive. */
  @Nullable String deathReport(int rank);

  /**
   * Collective among the ranks that are still alive: a new group of them, renumbered from 0 in
   * their old order. This group stays as it is and is closed by its owner as before; it may be
   * closed first. Works after the loss of any rank, the host of the rendezvous included.
   *
   * <p>Made for ranks that stop. If a network splits into halves that cannot reach each other, each
   * half makes a group of its own.
   *
   * @param timeout how long to wait until every rank has either called it or is known to be gone
   * @throws GroupTimeoutException if an alive rank did not call it in time; names it
   * @throws PeerLostException if the others count this rank as lost, or another thread closes it
   */
  Group survivors(Duration timeout);

  /**
   * How many restarted processes have taken the place of this rank so far, 0 for the first process.
   * What is connected to an earlier incarnation must not count with this one: ask {@link #isAlive}
   * first, then this. A volatile read without allocation.
   */
  int incarnation(int rank);

  /**
   * Whether a restarted process waits to be admitted as this departed rank, as far as this rank
   * knows; not known while the rendezvous is lost. A volatile read without allocation.
   */
  boolean hasReplacement(int rank);

  /**
   * Collective of the ranks that are alive: takes in all restarted processes that wait in {@link
   * #rejoin}, at least one. When it returns, on all ranks alike, these ranks are alive again in a
   * new incarnation, and their {@code rejoin} returns; the next collective is the first one of all
   * ranks that are alive, whatever was called before. Groups made by {@link #survivors} stay as
   * they are.
   *
   * <p>Works after the loss of any rank: if the host of the rendezvous is gone, the lowest live
   * rank hosts another one, at the same address if that is on its host. Until the first call after
   * such a loss nobody listens there, so restarted processes wait, and claims are not known.
   *
   * <p>The old process must have ended, or be out for good: who starts the new one sees to that. If
   * it was only stopped, and goes on later, the group refuses it; but memory that it shares with
   * other processes is still within its reach.
   *
   * @param timeout how long to wait for the live ranks and a restarted process; the answer of the
   *     rendezvous may take the liveness timeout longer
   * @return the ranks that have come back, ascending
   * @throws GroupTimeoutException if a live rank did not call it in time, or no process came for a
   *     departed rank; names them. Nothing has changed then
   * @throws PeerLostException if the others count this rank as lost, or another thread closes it
   * @throws GroupException if the ranks are threads of one process, or if the thread is interrupted
   *     before ranks have come back: nothing has changed then, and it may be called again
   */
  int[] readmit(Duration timeout);

  /**
   * Marks this rank as lost and tells the others at once, with the reason: for a rank that cannot
   * go on but whose process may live, for example after an exception in its thread. The group
   * object is closed by it.
   */
  void fail(String why);

  /**
   * Leaves in good order; a second call does nothing. The others see that this rank has left. The
   * rank whose process hosts the rendezvous waits until they have left too, at most the liveness
   * timeout: its process is needed to notice deaths.
   */
  @Override
  void close();

  /**
   * Joins the group that a configuration describes, and returns when all ranks have.
   *
   * @throws JoinRefusedException if the rendezvous refuses this rank; says why
   * @throws GroupTimeoutException if ranks or the rendezvous are missing after the join timeout
   */
  static Group join(GroupConfig config) {
    return GroupJoin.join(config);
  }

  /**
   * Takes the place of a departed rank in a running group, and returns when the live ranks have
   * called {@link #readmit}. Whether the configuration says that this rank hosts the rendezvous has
   * no meaning here. While the old process is not yet known to be dead, waits for that, at most
   * twice the liveness timeout.
   *
   * @param config as for {@link #join}; the join timeout is how long to wait for the live ranks
   * @throws JoinRefusedException if the rank is alive, another process waits for its place, the
   *     secret is wrong, or the group has not formed or has ended; says which
   * @throws GroupTimeoutException if the rendezvous is missing after the join timeout, or live
   *     ranks have not called {@code readmit}; names them
   */
  static Group rejoin(GroupConfig config) {
    return GroupJoin.rejoin(config);
  }

  /**
   * Joins the group that this process was started for: reads the variables that the launchers set,
   * as {@link LaunchEnvironment} documents. Alone in a group of size 1 if none are set.
   */
  static Group fromEnvironment() {
    return LaunchEnvironment.of(System.getenv()).join();
  }

  /**
   * One group object per thread of a world inside this JVM. A rank belongs to the thread that calls
   * its collectives: if that thread ends without {@link #close} or {@link #fail}, and no other
   * thread takes the rank over within two seconds, the rank is lost.
   *
   * @param size number of ranks, at least 1
   * @return the groups in rank order
   */
  static List<Group> inProcess(int size) {
    return InProcessGroup.world(size);
  }
}
