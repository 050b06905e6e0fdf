package org.ep4j.group.rendezvous;

import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicReference;
import java.util.function.Supplier;
import org.ep4j.error.ErrorCode;
import org.ep4j.error.IllegalUseException;
import org.ep4j.error.InvalidArgumentException;
import org.ep4j.group.Group;
import org.ep4j.group.protocol.Deadline;
import org.ep4j.group.protocol.Departure;
import org.ep4j.group.protocol.GroupState;
import org.jspecify.annotations.Nullable;

/** Common part of all groups: numbering and checks of one rank's calls. */
abstract class MemberGroup implements Group {
  private static final System.Logger LOG = System.getLogger("org.ep4j.group");
  private static final byte[] NOTHING = new byte[0];

  private final int rank;
  private final int size;
  private final String jobId;
  private final GroupState state;
  private final AtomicBoolean closed = new AtomicBoolean();
  private final List<Supplier<byte[]>> observables = new CopyOnWriteArrayList<>();
  private final AtomicBoolean calling = new AtomicBoolean();

  /** The thread inside {@link #together}; null if none. */
  private final AtomicReference<@Nullable Thread> together = new AtomicReference<>();

  /** Purpose of that thread, in UTF-8; written by the thread before it calls collectives. */
  private volatile byte[] purpose = NOTHING;

  // Number of the last collective, and number of restarts of the numbering; written only by the
  // holder of `calling`.
  private long calls;
  private int restarts;

  MemberGroup(int rank, int size, String jobId, GroupState state) {
    this.rank = rank;
    this.size = size;
    this.jobId = jobId;
    this.state = state;
  }

  /** Sends this rank's part to all ranks, this one included. The array is not used afterwards. */
  abstract void contribute(long number, GroupState.Kind kind, byte[] part);

  /** Sends a notice of valid length to another rank. Any thread. */
  abstract void send(int to, long topic, byte[] notice);

  /** {@link #survivors}, called by one thread at a time. */
  abstract Group formSurvivors(Deadline deadline);

  /** {@link #readmit}, called by one thread at a time. */
  abstract int[] takeInRestarted(Deadline deadline);

  /** Departs; called once. */
  abstract void depart(Departure departure);

  @Override
  public final int rank() {
    return rank;
  }

  @Override
  public final int size() {
    return size;
  }

  @Override
  public final String jobId() {
    return jobId;
  }

  @Override
  public final byte[][] allGather(byte[] mine, Duration timeout) {
    requireMax(MAX_CONTRIBUTION, "mine", mine, "send large data through symmetric memory");
    return collect(GroupState.Kind.GATHER, mine.clone(), Deadline.after(timeout));
  }

  @Override
  public final void barrier(Duration timeout) {
    collect(GroupState.Kind.BARRIER, NOTHING, Deadline.after(timeout));
  }

  private byte[][] collect(GroupState.Kind kind, byte[] part, Deadline deadline) {
    enter();
    try {
      long number = calls + 1;
      state.requireInStep(rank, number);
      calls = number;
      byte[] own = isTogether() ? purpose : NOTHING;
      contribute(number, kind, PurposedPart.of(own, part));
      return PurposedPart.contents(rank, own, state.await(rank, number, kind, deadline));
    } finally {
      calling.set(false);
    }
  }

  @Override
  public final <T extends @Nullable Object> T together(String what, Supplier<T> task) {
    if (isTogether()) {
      return task.get();
    }
    if (!together.compareAndSet(null, Thread.currentThread())) {
      throw concurrentUse();
    }
    try {
      if (calling.get()) {
        throw concurrentUse();
      }
      purpose = PurposedPart.checked(what);
      return task.get();
    } finally {
      purpose = NOTHING;
      together.set(null);
    }
  }

  @Override
  public final void notice(int to, long topic, byte[] notice) {
    requireMax(MAX_NOTICE, "notice", notice, "shorten it");
    if (!closed.get()) {
      send(to, topic, notice.clone());
    }
  }

  private static void requireMax(int max, String argument, byte[] bytes, String remedy) {
    if (bytes.length > max) {
      throw new InvalidArgumentException(
          ErrorCode.CONTRIBUTION_SIZE,
          argument,
          bytes.length + " bytes",
          "at most " + max + " bytes",
          remedy);
    }
  }

  @Override
  public final void listen(long topic, @Nullable NoticeListener listener) {
    state.listen(rank, topic, listener);
  }

  @Override
  public final Runnable observable(Supplier<byte[]> observation) {
    observables.add(observation);
    return () -> observables.remove(observation);
  }

  /** What observers get from this rank, as much as a frame holds. */
  final List<byte[]> observations() {
    List<byte[]> all = new ArrayList<>();
    int bytes = 0;
    for (Supplier<byte[]> each : observables) {
      byte[] observation;
      try {
        observation = each.get();
      } catch (RuntimeException e) {
        // An observer must not cost the rank its connection.
        LOG.log(System.Logger.Level.WARNING, "rank " + rank + " cannot answer an observer", e);
        observation = NOTHING;
      }
      bytes += observation.length;
      if (bytes <= MAX_CONTRIBUTION) {
        all.add(observation);
      }
    }
    return all;
  }

  @Override
  public final Group survivors(Duration timeout) {
    Deadline deadline = Deadline.after(timeout);
    enter();
    try {
      return formSurvivors(deadline);
    } finally {
      calling.set(false);
    }
  }

  @Override
  public final int[] readmit(Duration timeout) {
    Deadline deadline = Deadline.after(timeout);
    enter();
    try {
      return takeInRestarted(deadline);
    } finally {
      calling.set(false);
    }
  }

  private void enter() {
    if (closed.get()) {
      throw new IllegalUseException(
          ErrorCode.GROUP_CLOSED, "the group of rank " + rank + " is closed: join a new group");
    }
    if (isTaskOfAnother() || !calling.compareAndSet(false, true)) {
      throw concurrentUse();
    }
    // Again, because a task may have started before `calling` kept it out.
    if (isTaskOfAnother()) {
      calling.set(false);
      throw concurrentUse();
    }
    if (restarts != state.restarts()) {
      restarts = state.restarts();
      calls = 0;
    }
  }

  /** Whether the current thread is inside {@link #together}. */
  private boolean isTogether() {
    return Thread.currentThread().equals(together.get());
  }

  private boolean isTaskOfAnother() {
    Thread owner = together.get();
    return owner != null && !owner.equals(Thread.currentThread());
  }

  private IllegalUseException concurrentUse() {
    byte[] other = purpose;
    return new IllegalUseException(
        ErrorCode.GROUP_CONCURRENT_USE,
        "two threads call collectives of rank %d at once%s: use one thread per rank, or open buffers and wires one after the other"
            .formatted(
                rank,
                other.length == 0
                    ? ""
                    : ", one of them for " + new String(other, StandardCharsets.UTF_8)));
  }

  @Override
  public boolean isAlive(int rank) {
    return state.isAlive(rank);
  }

  @Override
  public @Nullable String deathReport(int rank) {
    Departure departure = state.departure(rank);
    return departure == null ? null : departure.report();
  }

  @Override
  public final boolean hasLeft(int rank) {
    Departure departure = state.departure(rank);
    return departure != null && departure.left();
  }

  @Override
  public final int incarnation(int rank) {
    return state.incarnation(rank);
  }

  @Override
  public final boolean hasReplacement(int rank) {
    return state.hasReplacement(rank);
  }

  @Override
  public final void fail(String why) {
    if (closed.compareAndSet(false, true)) {
      depart(Departure.lost("failed: " + why));
    }
  }

  @Override
  public final void close() {
    if (closed.compareAndSet(false, true)) {
      depart(Departure.inGoodOrder());
    }
  }

  @Override
  public String toString() {
    return "rank " + rank + " of " + size + " in job " + jobId;
  }
}
