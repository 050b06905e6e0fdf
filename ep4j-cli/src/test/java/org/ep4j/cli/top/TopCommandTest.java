package org.ep4j.cli.top;

import static java.util.Objects.requireNonNull;
import static org.assertj.core.api.Assertions.assertThat;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import org.ep4j.cli.CliProcess;
import org.ep4j.cli.CommandLineRun;
import org.ep4j.cli.ExitCodes;
import org.ep4j.error.ErrorCode;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class TopCommandTest {
  @TempDir Path scratch;

  @Test
  void topNamesTheRankWhoseProcessIsSlow() throws Exception {
    try (CliProcess job =
        CliProcess.start(
            scratch,
            Map.of(),
            "bench",
            "ht",
            "--ranks",
            "3",
            "--tokens",
            "64",
            "--hidden",
            "256",
            "--iterations",
            "100000")) {
      List<ProcessHandle> ranks = awaitRanks(job);
      Map<String, String> ofSlow = variables(ranks.getFirst().pid());
      AtomicBoolean over = new AtomicBoolean();
      Thread brake = Thread.ofPlatform().start(() -> slowDown(ranks.getFirst().pid(), over));
      try {
        String rank = requireNonNull(ofSlow.get("EP4J_RANK"));
        String where = requireNonNull(ofSlow.get("EP4J_RENDEZVOUS"));
        String expected = "rank " + rank + " is slow";
        CommandLineRun seen = look(where);
        long deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(60);
        while (!seen.out().contains(expected) && System.nanoTime() < deadline) {
          TimeUnit.MILLISECONDS.sleep(200);
          seen = look(where);
        }
        assertThat(seen.out())
            .as(seen.err())
            .contains(expected, "3 ranks, 3 alive", "rank waits for", "balancedness");
      } finally {
        over.set(true);
        brake.join(10_000);
      }
    }
  }

  private static CommandLineRun look(String where) {
    return CommandLineRun.of("top", "--once", "--rendezvous", where);
  }

  @Test
  void aJobThatIsNotThereIsAnErrorWithARemedy() {
    CommandLineRun run = CommandLineRun.of("top", "--once", "--rendezvous", "localhost:1");
    assertThat(run.code()).isEqualTo(ExitCodes.USAGE);
    assertThat(run.err()).contains(ErrorCode.SECRET_MISSING.id(), "EP4J_SECRET");
  }

  @Test
  void badOptionsAreRefused() {
    assertThat(CommandLineRun.of("top", "--interval", "0").err())
        .contains(ErrorCode.BAD_OPTION_VALUE.id(), "0.1 to 3600");
    assertThat(CommandLineRun.of("top", "--once", "--json", "/").err())
        .contains(ErrorCode.BAD_JSON_FILE.id());
  }

  private static List<ProcessHandle> awaitRanks(CliProcess job) throws Exception {
    long deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(60);
    while (System.nanoTime() < deadline) {
      List<ProcessHandle> ranks = job.ranks().toList();
      if (ranks.size() == 3
          && ranks.stream().allMatch(rank -> variables(rank.pid()).containsKey("EP4J_RANK"))) {
        return ranks;
      }
      TimeUnit.MILLISECONDS.sleep(50);
    }
    throw new IllegalStateException("no ranks: " + job.out() + job.err());
  }

  /** Stops a process most of the time, as a busy neighbour on its core would. */
  private static void slowDown(long pid, AtomicBoolean over) {
    try {
      while (!over.get()) {
        signal("STOP", pid);
        TimeUnit.MILLISECONDS.sleep(10);
        signal("CONT", pid);
        TimeUnit.MILLISECONDS.sleep(2);
      }
    } catch (IOException | InterruptedException e) {
      throw new IllegalStateException(e);
    }
  }

  private static void signal(String name, long pid) throws IOException, InterruptedException {
    new ProcessBuilder("kill", "-" + name, Long.toString(pid))
        .redirectErrorStream(true)
        .start()
        .waitFor(10, TimeUnit.SECONDS);
  }

  private static Map<String, String> variables(long pid) {
    try {
      return Arrays.stream(
              Files.readString(Path.of("/proc/" + pid + "/environ"), StandardCharsets.ISO_8859_1)
                  .split("\0"))
          .filter(entry -> entry.startsWith("EP4J_") && entry.contains("="))
          .collect(
              java.util.stream.Collectors.toMap(
                  entry -> entry.substring(0, entry.indexOf('=')),
                  entry -> entry.substring(entry.indexOf('=') + 1)));
    } catch (IOException e) {
      return Map.of();
    }
  }
}
