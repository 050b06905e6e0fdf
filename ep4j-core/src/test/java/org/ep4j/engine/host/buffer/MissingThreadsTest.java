package org.ep4j.engine.host.buffer;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.time.Duration;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicIntegerArray;
import org.ep4j.engine.host.exec.OperationQueue;
import org.ep4j.engine.host.exec.WorkerTeam;
import org.ep4j.execution.Event;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** The system refuses a thread, then starts it: work submitted in between does not block. */
@Timeout(value = 30, threadMode = Timeout.ThreadMode.SEPARATE_THREAD)
class MissingThreadsTest {
  private static final String NO_THREAD = "unable to create native thread";

  @Test
  void anOperationThatNoThreadRunsIsNotWaitedFor() {
    AtomicInteger asked = new AtomicInteger();
    try (OperationQueue queue =
        new OperationQueue(
            task -> {
              if (asked.getAndIncrement() == 0) {
                throw new OutOfMemoryError(NO_THREAD);
              }
              return Thread.ofPlatform().daemon().unstarted(task);
            },
            Duration.ofSeconds(10))) {
      assertThatThrownBy(() -> queue.submit(() -> {})).hasMessage(NO_THREAD);
      queue.drain();
      AtomicInteger runs = new AtomicInteger();
      Event event = queue.submit(runs::incrementAndGet);
      event.await();
      assertThat(runs).hasValue(1);
    }
  }

  @Test
  void aTeamIsWholeOrIsNot() {
    AtomicInteger asked = new AtomicInteger();
    try (WorkerTeam team =
        new WorkerTeam(
            "team",
            4,
            helper -> {
              // Of the first three threads the second does not start, of the next the last.
              int number = asked.getAndIncrement();
              if (number == 1 || number == 4) {
                throw new OutOfMemoryError(NO_THREAD);
              }
              helper.start();
            })) {
      AtomicIntegerArray parts = new AtomicIntegerArray(4);
      WorkerTeam.Task task = (worker, workers) -> parts.incrementAndGet(worker);
      assertThatThrownBy(() -> team.run(task)).hasMessage(NO_THREAD);
      assertThatThrownBy(() -> team.run(task)).hasMessage(NO_THREAD);
      assertThat(parts).hasToString("[0, 0, 0, 0]");
      team.run(task);
      assertThat(parts).hasToString("[1, 1, 1, 1]");
    }
  }
}
