package org.ep4j.group;

import java.time.Duration;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.stream.IntStream;
import org.ep4j.group.Frames.Peer;
import org.ep4j.group.Frames.Question;
import org.jspecify.annotations.Nullable;

/**
 * How a member takes part in {@link Group#readmit}: it says ADMIT to the rendezvous, and waits for
 * what comes of it. If the rendezvous is lost, before or meanwhile, the members first make a new
 * one for the same group ({@link RendezvousFailover}); the deadline is one for all.
 *
 * <p>The rendezvous decides. A member whose time is up, or whose thread is interrupted, takes its
 * ADMIT back, and still waits for the answer, which may be that the others were faster: so members
 * agree on who is in, and no answer is taken for that of a later call.
 */
final class Readmission {
  private static final Duration PAUSE = Duration.ofMillis(20);

  /**
   * What came of it.
   *
   * @param newcomers who was admitted; null if nobody was
   * @param rejoins processes that waited, if nobody was admitted
   * @param missing live ranks that had not called it, if nobody was admitted
   * @param rendezvousLost whether nobody could be asked
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
            "readmit: the rendezvous is lost, and there was no time left to make another one"
                + " within %s: call it again".formatted(deadline.text()),
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
          "readmit: no process has come for a departed rank (%s) within %s: start one that calls"
                  .formatted(MissingRanks.text(gone), deadline.text())
              + " Group.rejoin",
          gone,
          null);
    }
    if (missing.length > 0) {
      return new GroupTimeoutException(
          "readmit: %s after %s; alive, but not calling readmit()"
              .formatted(MissingRanks.text(missing), deadline.text()),
          missing,
          null);
    }
    return new GroupTimeoutException(
        answer.rejoins() == 0
            ? "readmit: all ranks are alive: there is nobody to admit"
            : "readmit: not all live ranks were there at one time within %s: call it again"
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
    // Comes at once, or the rendezvous is found to be silent.
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
            "readmit: interrupted while waiting for the other ranks", interrupt);
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
