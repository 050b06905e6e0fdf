package org.ep4j.engine.host.exec;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicIntegerArray;
import org.ep4j.config.BufferConfig;
import org.ep4j.engine.world.Nodes;
import org.ep4j.routing.ExpertPlacement;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

@Timeout(value = 30, threadMode = Timeout.ThreadMode.SEPARATE_THREAD)
class WorkerTeamTest {
  @Test
  void coresAreSharedByTheRanksOfAHost() {
    int cores = Runtime.getRuntime().availableProcessors();
    assertThat(WorkerTeam.size(0, Nodes.one(1), 0)).isEqualTo(cores);
    assertThat(WorkerTeam.size(0, Nodes.one(2), 1)).isEqualTo(Math.max(1, cores / 2));
    assertThat(WorkerTeam.size(0, Nodes.one(2 * cores), 1)).isEqualTo(1);
    assertThat(WorkerTeam.size(7, Nodes.one(2), 1)).isEqualTo(7);
    assertThat(WorkerTeam.size(5000, Nodes.one(2), 1)).isEqualTo(1024);
  }

  @Test
  void betweenNodesACoreIsLeftWhereThereAreEnough() {
    Nodes two =
        Nodes.of(
            BufferConfig.builder()
                .hidden(64)
                .topK(1)
                .highThroughput(1)
                .placement(ExpertPlacement.blocks(4, 4))
                .ranksPerNode(2)
                .build());
    assertThat(WorkerTeam.size(0, two, 1, 2)).isEqualTo(1);
    assertThat(WorkerTeam.size(0, two, 1, 12)).isEqualTo(3);
    assertThat(WorkerTeam.size(0, two, 1, 16)).isEqualTo(3);
    assertThat(WorkerTeam.size(0, two, 1, 32)).isEqualTo(7);
    assertThat(WorkerTeam.size(4, two, 1, 16)).isEqualTo(4);
    assertThat(WorkerTeam.size(0, Nodes.one(4), 1, 16)).isEqualTo(4);
  }

  @Test
  void helpersBeginWithoutTheCaller() throws InterruptedException {
    Set<Thread> threads = ConcurrentHashMap.newKeySet();
    try (WorkerTeam team = new WorkerTeam("team", 4)) {
      CountDownLatch go = new CountDownLatch(1);
      AtomicIntegerArray parts = new AtomicIntegerArray(4);
      WorkerTeam.Task task =
          (worker, workers) -> {
            assertThat(workers).isEqualTo(4);
            threads.add(Thread.currentThread());
            try {
              go.await();
            } catch (InterruptedException e) {
              throw new IllegalStateException(e);
            }
            parts.incrementAndGet(worker);
          };
      for (int round = 1; round <= 3; round++) {
        team.start(task);
        go.countDown();
        team.finish();
        assertThat(parts).hasToString("[0, %d, %d, %d]".formatted(round, round, round));
      }
      assertThat(threads).hasSize(3).doesNotContain(Thread.currentThread());
      // The caller takes its part back when it waits anyway.
      AtomicIntegerArray all = new AtomicIntegerArray(4);
      team.run((worker, workers) -> all.incrementAndGet(worker));
      assertThat(all).hasToString("[1, 1, 1, 1]");
    }
    for (Thread thread : threads) {
      thread.join();
    }
  }

  @Test
  void aTeamOfOneStartsNoThread() {
    try (WorkerTeam team = new WorkerTeam("team", 1)) {
      AtomicIntegerArray parts = new AtomicIntegerArray(1);
      team.start((worker, workers) -> parts.incrementAndGet(worker));
      team.finish();
      assertThat(parts.get(0)).isZero();
      team.run((worker, workers) -> parts.incrementAndGet(worker));
      assertThat(parts.get(0)).isEqualTo(1);
    }
  }

  @Test
  void whatAPartThrowsIsThrownOnce() {
    for (int size = 1; size <= 4; size++) {
      try (WorkerTeam team = new WorkerTeam("team", size)) {
        WorkerTeam.Task broken =
            (worker, workers) -> {
              if (worker == workers - 1) {
                throw new IllegalStateException("broken");
              }
            };
        assertThatThrownBy(() -> team.run(broken)).hasMessage("broken");
        team.run((worker, workers) -> {});
        if (size > 1) {
          assertThatThrownBy(
                  () -> {
                    team.start(broken);
                    team.finish();
                  })
              .hasMessage("broken");
          team.start(broken);
          team.abandon();
          team.run((worker, workers) -> {});
        }
      }
    }
  }
}
