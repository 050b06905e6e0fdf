package org.ep4j.group;

import java.net.InetAddress;
import java.time.Duration;
import java.util.List;
import java.util.function.Supplier;
import org.ep4j.group.rendezvous.GroupJoin;
import org.ep4j.group.rendezvous.InProcessGroup;
import org.jspecify.annotations.Nullable;

/**
 * The ranks of one job.
 *
 * <p>Thread rule: one thread per rank calls the collectives ({@link #allGather}, {@link #barrier},
 * {@link #survivors}, {@link #readmit}), in the same order on all ranks. A task of several
 * collectives, such as opening a buffer, keeps other threads out ({@link #together}). Any thread
 * may call the other methods.
 *
 * <p>Departed ranks: a rank that closed its group has <em>left</em>. A rank whose process or thread
 * ended, became silent, or called {@link #fail} is <em>lost</em>. Neither is alive, and a
 * collective that still lacks its part ends at once in {@link PeerLostException} on all other
 * ranks. {@link #survivors} makes a smaller group of the remaining ranks.
 *
 * <p>Restarted ranks: a new process replaces a departed rank by {@link #rejoin}, when the live
 * ranks call {@link #readmit}. It is the same rank in another incarnation ({@link #incarnation});
 * actions of the old process are never attributed to the new one.
 *
 * <p>Timeouts: a collective that ended in {@link GroupTimeoutException} counts as called. The rank
 * has done its part, the others may still complete theirs with it, and the next call is the next
 * collective. The same holds for one that an interrupt of its thread has ended, in {@link
 * GroupException} with the code {@link org.ep4j.error.ErrorCode#GROUP_INTERRUPTED}; the interrupt
 * flag stays set.
 */
public interface Group extends AutoCloseable {
  /** Maximum number of bytes that a rank may pass to {@link #allGather}: 1 MiB. */
  int MAX_CONTRIBUTION = 1 << 20;

  /** Maximum number of bytes of a notice: 1 KiB. */
  int MAX_NOTICE = 1 << 10;

  /** Receives the notices about a topic. */
  @FunctionalInterface
  interface NoticeListener {
    /**
     * Returns at once: the thread that calls it serves all ranks of the group, or is that of the
     * sender if the ranks are threads of one JVM.
     *
     * @param from the rank that sent the notice
     * @param notice owned by the listener
     */
    void noticed(int from, byte[] notice);
  }

  /** This rank, from 0 to {@code size() - 1}. */
  int rank();

  /** Number of ranks, departed ones included. */
  int size();

  /**
   * Name of the job: the same on all ranks, different from every other job on these hosts. Contains
   * only the characters {@code 0-9 a-z -}, at most 40, so it can be part of a file name.
   */
  String jobId();

  /** Whether all ranks are threads of this JVM. */
  boolean inProcess();

  /** A key that only the ranks of this job know, for connections between ranks. */
  JobKey key();

  /**
   * The address at which this rank reaches the host of {@code rank}, as reported by the rendezvous.
   */
  InetAddress address(int rank);

  /**
   * Collective: every rank passes some bytes and receives those of all ranks.
   *
   * @param mine at most {@link #MAX_CONTRIBUTION} bytes, copied; lengths may differ between ranks
   * @param timeout maximum wait for the other ranks
   * @return one array per rank, in rank order, owned by the caller
   * @throws PeerLostException if a rank departed before it did its part
   * @throws GroupTimeoutException if ranks are missing after {@code timeout}; names them
   * @throws GroupException if another rank called another collective at the same position
   * @throws org.ep4j.error.InvalidArgumentException if {@code mine} is too long
   * @throws org.ep4j.error.IllegalUseException if this group is closed, or another thread is inside
   *     a collective
   */
  byte[][] allGather(byte[] mine, Duration timeout);

  /**
   * Collective: returns when all ranks have called it. Errors as {@link #allGather}.
   *
   * @param timeout maximum wait for the other ranks
   */
  void barrier(Duration timeout);

  /**
   * Runs a task that calls several collectives; collective. Meanwhile no other thread of this rank
   * can call any, and the ranks must have the same purpose: otherwise a rank could take what
   * another one sends for something else. A task inside a task belongs to the outer one.
   *
   * @param purpose what the task does, the same on all ranks; at most 100 bytes of UTF-8
   * @return the result of the task
   * @throws GroupException from a collective, if another rank calls it for another purpose
   * @throws org.ep4j.error.IllegalUseException if another thread of this rank is inside a task or a
   *     collective
   */
  default <T extends @Nullable Object> T together(String purpose, Supplier<T> task) {
    return task.get();
  }

  /**
   * Whether a rank is alive, as far as this rank knows. A volatile read without allocation,
   * suitable for spin loops.
   */
  boolean isAlive(int rank);

  /** How and when the departure of a rank was noticed; null while the rank is alive. */
  @Nullable String deathReport(int rank);

  /**
   * Whether a departed rank has {@linkplain #close closed} its group; false if it was lost or is
   * alive.
   */
  boolean hasLeft(int rank);

  /**
   * Sends a few bytes to another rank without its cooperation, over the connections of the group
   * and not over those of a wire; not a collective, and does not wait. Nothing arrives at a rank
   * that has departed or that does not listen to the topic, nor while the rendezvous is lost. Any
   * thread.
   *
   * @param topic number that both ranks know
   * @param notice at most {@link #MAX_NOTICE} bytes, copied
   * @throws org.ep4j.error.InvalidArgumentException if {@code notice} is too long
   */
  void notice(int rank, long topic, byte[] notice);

  /**
   * Passes notices about a topic to a listener from now on; it replaces an earlier one. Any thread.
   *
   * @param listener null for no listener; the earlier one may still be inside a call
   */
  void listen(long topic, @Nullable NoticeListener listener);

  /**
   * Answers programs that observe the job, such as {@code ./ep4j top}, with what {@code
   * observation} returns, beside earlier ones. Any thread.
   *
   * @param observation called by the thread that serves the group whenever an observer asks:
   *     returns at once
   * @return ends the answers when it runs
   */
  Runnable observable(Supplier<byte[]> observation);

  /**
   * Collective among the live ranks: makes a new group of them, renumbered from 0 in their old
   * order. This group does not change; its owner closes it as usual, possibly first. Works after
   * the loss of any rank, including the host of the rendezvous.
   *
   * <p>Intended for ranks that stop. If a network splits into parts that cannot reach each other,
   * each part makes its own group.
   *
   * @param timeout maximum wait until every rank has called it or is known to be lost
   * @throws GroupTimeoutException if a live rank did not call it in time; names the rank
   * @throws PeerLostException if the other ranks count this rank as lost, or another thread closes
   *     it
   */
  Group survivors(Duration timeout);

  /**
   * Number of restarted processes that have replaced this rank so far; 0 for the first process. A
   * connection to an earlier incarnation must not be attributed to this one: read {@link #isAlive}
   * first, then this. A volatile read without allocation.
   */
  int incarnation(int rank);

  /**
   * Whether a restarted process waits to be admitted as this departed rank, as far as this rank
   * knows; unknown while the rendezvous is lost. A volatile read without allocation.
   */
  boolean hasReplacement(int rank);

  /**
   * Collective among the live ranks: admits all restarted processes that wait in {@link #rejoin},
   * at least one. When it returns, these ranks are alive again in a new incarnation on all ranks,
   * and their {@code rejoin} returns. The next collective is the first one of all live ranks,
   * independent of earlier calls. Groups made by {@link #survivors} do not change.
   *
   * <p>Works after the loss of any rank. If the host of the rendezvous is lost, the lowest live
   * rank hosts a new one, at the same address if that address is on its host. Until the first call
   * after such a loss the rendezvous has no listener: restarted processes wait, and rejoin requests
   * are unknown.
   *
   * <p>The old process must have ended or be permanently out of the group; the launcher of the new
   * process ensures this. The group refuses an old process that was only stopped and resumes, but
   * that process can still write memory that it shares with other processes.
   *
   * @param timeout maximum wait for the live ranks and a restarted process; the answer of the
   *     rendezvous may take the liveness timeout longer
   * @return the readmitted ranks, ascending
   * @throws GroupTimeoutException if a live rank did not call it in time, or no process replaces a
   *     departed rank; names the ranks. The group is unchanged
   * @throws PeerLostException if the other ranks count this rank as lost, or another thread closes
   *     it
   * @throws GroupException if the ranks are threads of one process, or if the thread is interrupted
   *     before ranks are readmitted: the group is unchanged, and the call may be repeated
   */
  int[] readmit(Duration timeout);

  /**
   * Marks this rank as lost and notifies the others at once, with the reason. For a rank that
   * cannot continue but whose process may live, for example after an exception in its thread.
   * Closes the group.
   *
   * @param why reason for the messages of the other ranks
   */
  void fail(String why);

  /**
   * Leaves in good order; a second call has no effect. The other ranks see that this rank has left.
   * If this process hosts the rendezvous, the call waits until the other ranks have left too, at
   * most the liveness timeout: the host is needed to notice deaths.
   */
  @Override
  void close();

  /**
   * Joins the group of a configuration, and returns when all ranks have joined.
   *
   * @throws JoinRefusedException if the rendezvous refuses this rank; names the reason
   * @throws GroupTimeoutException if ranks or the rendezvous are missing after the join timeout
   * @throws org.ep4j.error.InvalidArgumentException if the port is 0
   */
  static Group join(GroupConfig config) {
    return GroupJoin.join(config);
  }

  /**
   * Replaces a departed rank in a running group, and returns when the live ranks have called {@link
   * #readmit}. {@code hostsRendezvous} of the configuration is ignored. While the old process is
   * not yet known to be dead, the call waits at most twice the liveness timeout for that.
   *
   * @param config as for {@link #join}; the join timeout is the maximum wait for the live ranks
   * @throws JoinRefusedException if the rank is alive, another process waits to replace it, the
   *     secret is wrong, or the group has not formed or has ended; names the reason
   * @throws GroupTimeoutException if the rendezvous is missing after the join timeout, or live
   *     ranks have not called {@code readmit}; names them
   */
  static Group rejoin(GroupConfig config) {
    return GroupJoin.rejoin(config);
  }

  /**
   * Joins the group for which this process was started, from the variables of the launchers that
   * {@link LaunchEnvironment} documents. Without such variables the group has size 1.
   */
  static Group fromEnvironment() {
    return LaunchEnvironment.of(System.getenv()).join();
  }

  /**
   * One group object per thread of a world inside this JVM. The thread that calls the collectives
   * of a rank owns the rank: if that thread ends without {@link #close} or {@link #fail}, and no
   * other thread takes over within two seconds, the rank is lost.
   *
   * @param size number of ranks, at least 1
   * @return the groups in rank order
   */
  static List<Group> inProcess(int size) {
    return InProcessGroup.world(size);
  }
}
