package org.ep4j.group.rendezvous;

import java.time.Duration;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.stream.IntStream;
import org.ep4j.error.ErrorCode;
import org.ep4j.group.Group;
import org.ep4j.group.GroupException;
import org.ep4j.group.GroupTimeoutException;
import org.ep4j.group.PeerLostException;
import org.ep4j.group.protocol.Deadline;
import org.ep4j.group.protocol.Departure;
import org.ep4j.group.protocol.Frames.Peer;
import org.ep4j.group.protocol.Frames.Question;
import org.ep4j.group.protocol.GroupState;
import org.ep4j.group.protocol.MissingRanks;
import org.ep4j.group.protocol.RetryDelay;
import org.jspecify.annotations.Nullable;

/**
 * A member's part in {@link Group#readmit}: it sends ADMIT to the rendezvous and waits for the
 * answer. If the rendezvous is lost, the members first make a new one for the same group ({@link
 * RendezvousFailover}), under the same deadline.
 *
 * <p>The rendezvous decides. A member whose deadline passes, or whose thread is interrupted,
 * withdraws its ADMIT and still waits for the answer, because the others may have been faster.
 * Therefore members agree on the admitted ranks, and an answer is never taken for that of a later
 * call.
 */
final class Readmission {
  private static final Duration PAUSE = Duration.ofMillis(20);

  /**
   * The answer of the rendezvous.
   *
   * @param newcomers the admitted ranks; null if none
   * @param rejoins number of processes that waited, if none was admitted
   * @param missing live ranks that had not called it, if no rank was admitted
   * @param rendezvousLost whether the rendezvous is lost
   */
  record Answer(
      @Nullable List<Peer> newcomers, int rejoins, List<Integer> missing, boolean rendezvousLost) {
    static final Answer LOST = new Answer(null, 0, List.of(), true);

    static Answer admitted(List<Peer> newcomers) {
      return new Answer(newcomers, 0, List.of(), false);
    }

    static Answer withdrawn(int rejoins, List<Integer> missing) {
      return new Answer(null, rejoins, missing, false);
    }
  }

  private final TcpGroup group;
  private final GroupState state;
  private final Deadline deadline;

  Readmission(TcpGroup group, Deadline deadline) {
    this.group = group;
    this.state = group.state();
    this.deadline = deadline;
  }

  /** The ranks that were admitted. */
  int[] run() {
    while (true) {
      Departure own = state.departure(group.rank());
      if (own != null) {
        throw PeerLostException.ofCaller("readmit", group.rank(), own.report());
      }
      if (state.isDown()) {
        new RendezvousFailover(Question.SAME_GROUP, group, deadline).form();
      }
      Answer answer = await(group.admit());
      List<Peer> newcomers = answer.newcomers();
      if (newcomers != null) {
        return newcomers.stream().mapToInt(Peer::rank).toArray();
      }
      if (!answer.rendezvousLost()) {
        throw none(answer);
      }
      if (deadline.expired()) {
        throw new GroupTimeoutException(
            ErrorCode.READMIT_TIMEOUT,
            "readmit: the rendezvous is lost, and no new one was made"
                + " within %s: call readmit() again".formatted(deadline.text()),
            new int[0],
            null);
      }
      RetryDelay.of(PAUSE, "readmit: interrupted while the rendezvous is lost");
    }
  }

  private GroupTimeoutException none(Answer answer) {
    int[] missing = answer.missing().stream().mapToInt(r -> r).toArray();
    int[] gone = IntStream.range(0, group.size()).filter(r -> !state.isAlive(r)).toArray();
    if (answer.rejoins() == 0 && gone.length > 0) {
      return new GroupTimeoutException(
          ErrorCode.READMIT_TIMEOUT,
          "readmit: no process replaces a departed rank (%s) after %s: start one that calls"
                  .formatted(MissingRanks.text(gone), deadline.text())
              + " Group.rejoin",
          gone,
          null);
    }
    if (missing.length > 0) {
      return new GroupTimeoutException(
          ErrorCode.READMIT_TIMEOUT,
          "readmit: %s after %s: call readmit() on all live ranks"
              .formatted(MissingRanks.text(missing), deadline.text()),
          missing,
          null);
    }
    return new GroupTimeoutException(
        ErrorCode.READMIT_TIMEOUT,
        answer.rejoins() == 0
            ? "readmit: no rank to admit: all ranks are alive"
            : "readmit: the live ranks did not call it at the same time within %s: call it again"
                .formatted(deadline.text()),
        missing,
        null);
  }

  private Answer await(CompletableFuture<Answer> asked) {
    InterruptedException interrupt = null;
    try {
      Answer answer = get(asked, deadline);
      if (answer != null) {
        return answer;
      }
    } catch (InterruptedException e) {
      interrupt = e;
    }
    group.withdraw();
    // The answer arrives at once, or the rendezvous is found to be silent.
    Deadline silent = Deadline.after(group.config().livenessTimeout().multipliedBy(2));
    while (true) {
      try {
        Answer last = get(asked, silent);
        if (interrupt == null) {
          return last == null ? Answer.LOST : last;
        }
        Thread.currentThread().interrupt();
        if (last != null && last.newcomers() != null) {
          return last;
        }
        throw new GroupException(
            ErrorCode.GROUP_INTERRUPTED,
            "readmit: interrupted while waiting for the other ranks",
            interrupt);
      } catch (InterruptedException e) {
        interrupt = e;
      }
    }
  }

  private static @Nullable Answer get(CompletableFuture<Answer> asked, Deadline deadline)
      throws InterruptedException {
    try {
      return asked.get(Math.max(0, deadline.remainingNanos()), TimeUnit.NANOSECONDS);
    } catch (TimeoutException e) {
      return null;
    } catch (ExecutionException e) {
      throw new IllegalStateException("an answer is never an exception", e);
    }
  }
}
