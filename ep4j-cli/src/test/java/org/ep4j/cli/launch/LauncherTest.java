package org.ep4j.cli.launch;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.io.ByteArrayInputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import org.ep4j.cli.CliProcess;
import org.ep4j.cli.CommandFailure;
import org.ep4j.cli.ExitCodes;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class LauncherTest {
  private static final Duration GRACE = Duration.ofSeconds(5);
  private static final Duration LIMIT = Duration.ofSeconds(60);

  @TempDir Path scratch;

  private final List<String> lines = Collections.synchronizedList(new ArrayList<>());

  @Test
  void aLaunchWithoutFailedRanksSucceeds() throws InterruptedException {
    Outcome outcome = run(GRACE, LIMIT, "echo hello", "echo there >&2; printf last");

    assertThat(outcome).isEqualTo(Outcome.SUCCESS);
    assertThat(lines).containsExactlyInAnyOrder("0 out hello", "1 err there", "1 out last");
  }

  @Test
  void theFirstFailureEndsTheOthersAndIsTheOutcome() throws InterruptedException {
    Outcome outcome = run(GRACE, LIMIT, "exec sleep 1000", "exit 42", "sleep 1000; echo survived");

    assertThat(outcome.exitCode()).isEqualTo(42);
    assertThat(outcome.failedRank()).isEqualTo(1);
    assertThat(outcome.report()).contains("rank 1").contains("42");
    assertThat(lines).isEmpty();
  }

  @Test
  void aKilledRankIsReportedByItsSignal() throws InterruptedException {
    Outcome outcome = run(GRACE, LIMIT, "kill -9 $$", "exec sleep 1000");

    assertThat(outcome.exitCode()).isEqualTo(137);
    assertThat(outcome.report()).contains("rank 0").contains("SIGKILL");
  }

  @Test
  void aRankThatRefusesToEndIsKilledAfterTheGrace() throws InterruptedException {
    Path ready = scratch.resolve("ready");
    String stubborn =
        "trap '' TERM; echo ready; touch " + ready + "; while true; do sleep 0.05; done";
    String failing = "while [ ! -e " + ready + " ]; do sleep 0.02; done; exit 3";
    Outcome outcome = run(Duration.ofMillis(300), LIMIT, stubborn, failing);

    assertThat(outcome.exitCode()).isEqualTo(3);
    assertThat(lines).contains("0 out ready");
  }

  @Test
  void childrenOfARankEndWithTheRank() throws Exception {
    Path pid = scratch.resolve("pid");
    String parent = "sleep 1000 & echo $! > " + pid + "; wait";
    run(GRACE, LIMIT, parent, "while [ ! -s " + pid + " ]; do sleep 0.02; done; exit 1");

    CliProcess.awaitGone(Long.parseLong(Files.readString(pid).strip()));
  }

  @Test
  void ranksThatRunTooLongAreEnded() throws InterruptedException {
    Outcome outcome = run(GRACE, Duration.ofSeconds(3), "exec sleep 1000", "exit 0");

    assertThat(outcome.exitCode()).isEqualTo(ExitCodes.PEER);
    assertThat(outcome.report()).contains("1 ranks still ran");
  }

  @Test
  void aRankIsNotRestartedAfterTheTimeLimit() throws InterruptedException {
    RankProcess failing =
        new RankProcess(
            List.of("sh", "-c", "echo; sleep 0.02; exit 1"), Map.of(), keep("out "), ignore());
    try (Launcher launcher = new Launcher(GRACE)) {
      // All restarts would take at least 4 s.
      Outcome outcome = launcher.run(List.of(failing), Duration.ofMillis(300), 200);

      assertThat(outcome.report()).contains("rank 0 ended with exit code 1");
      assertThat(lines).hasSizeBetween(1, 199);
    }
  }

  @Test
  void aMissingProgramIsReported() {
    try (Launcher launcher = new Launcher(GRACE)) {
      List<RankProcess> ranks =
          List.of(new RankProcess(List.of("no-such-command"), Map.of(), ignore(), ignore()));
      assertThatThrownBy(() -> launcher.run(ranks, LIMIT))
          .isInstanceOf(CommandFailure.class)
          .hasMessageContaining("rank 0")
          .hasMessageContaining("no-such-command");
    }
  }

  @Test
  void endlessLinesAreForwardedInParts() {
    byte[] bytes = new byte[LineRelay.LONGEST + 10];
    List<Integer> lengths = new ArrayList<>();
    new LineRelay(new ByteArrayInputStream(bytes), (line, length) -> lengths.add(length)).run();

    assertThat(lengths).containsExactly(LineRelay.LONGEST, 10);
  }

  @Test
  void emptyLinesAndMissingLineEndsSurvive() {
    byte[] bytes = "a\n\nb".getBytes(StandardCharsets.UTF_8);
    List<String> seen = new ArrayList<>();
    LineSink sink = (line, length) -> seen.add(new String(line, 0, length, StandardCharsets.UTF_8));
    new LineRelay(new ByteArrayInputStream(bytes), sink).run();

    assertThat(seen).containsExactly("a", "", "b");
  }

  private Outcome run(Duration grace, Duration limit, String... scripts)
      throws InterruptedException {
    List<RankProcess> ranks = new ArrayList<>();
    for (int rank = 0; rank < scripts.length; rank++) {
      ranks.add(
          new RankProcess(
              List.of("sh", "-c", scripts[rank]),
              Map.of("RANK", String.valueOf(rank)),
              keep(rank + " out "),
              keep(rank + " err ")));
    }
    try (Launcher launcher = new Launcher(grace)) {
      return launcher.run(ranks, limit);
    }
  }

  private LineSink keep(String prefix) {
    return (line, length) ->
        lines.add(prefix + new String(line, 0, length, StandardCharsets.UTF_8));
  }

  private static LineSink ignore() {
    return (line, length) -> {};
  }
}
