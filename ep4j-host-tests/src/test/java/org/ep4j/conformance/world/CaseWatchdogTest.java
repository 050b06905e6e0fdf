package org.ep4j.conformance.world;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.ep4j.group.Group;
import org.junit.jupiter.api.Test;

class CaseWatchdogTest {
  private static final Duration LIMIT = Duration.ofMinutes(1);

  /** Reports at once that it is slow, and runs until its process is killed. */
  static final class SlowJob implements RankJob {
    @Override
    public void run(Group group, List<String> arguments) throws InterruptedException {
      System.out.println("nothing of interest");
      String what = "rank " + group.rank() + ", case";
      try (CaseWatchdog _ =
          new CaseWatchdog(
              what, () -> "barrier", Duration.ofMillis(1), line -> System.out.println(line))) {
        Thread.sleep(LIMIT);
      }
    }
  }

  @Test
  void aSlowCaseReportsItsPositionAndItsEnd() throws InterruptedException {
    List<String> lines = new CopyOnWriteArrayList<>();
    CountDownLatch twice = new CountDownLatch(2);
    try (CaseWatchdog _ =
        new CaseWatchdog(
            "case",
            () -> "line " + lines.size(),
            Duration.ofMillis(1),
            line -> {
              lines.add(line);
              twice.countDown();
            })) {
      assertTrue(twice.await(LIMIT.toMillis(), TimeUnit.MILLISECONDS), lines::toString);
    }
    assertEquals("case still runs after 0 s: line 0", lines.getFirst());
    assertEquals("case still runs after 0 s: line 1", lines.get(1));
    assertTrue(lines.getLast().startsWith("case ended after "), lines::toString);
  }

  @Test
  void aCaseThatEndsInTimeReportsNothing() {
    List<String> lines = new CopyOnWriteArrayList<>();
    new CaseWatchdog("case", () -> "nowhere", LIMIT, lines::add).close();
    assertEquals(List.of(), lines);
  }

  @Test
  void reportsOfProcessesAboutSlowCasesAreForwardedOnce() {
    try (RankProcesses ranks = new ProcessWorld().start(1, SlowJob.class, List.of())) {
      ranks.awaitOutput(0, CaseWatchdog.STILL, LIMIT);
      List<String> reports = new ArrayList<>(ranks.reportSlowCases());
      assertTrue(reports.getFirst().startsWith("rank 0, case still runs after"), reports::toString);
      ranks.awaitMoreOutput(0, ranks.output(0).length(), LIMIT);
      reports.addAll(ranks.reportSlowCases());
      List<String> written =
          ranks.output(0).lines().filter(line -> line.contains(CaseWatchdog.STILL)).toList();
      assertEquals(written.subList(0, reports.size()), reports);
    }
  }
}
