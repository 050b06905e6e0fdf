package org.ep4j.cli.launch;

import static org.assertj.core.api.Assertions.assertThat;

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import org.ep4j.cli.CliProcess;
import org.ep4j.cli.CommandLineRun;
import org.ep4j.cli.ExitCodes;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

class LaunchCommandTest {
  @TempDir Path scratch;

  @Test
  void everyRankKnowsItsNumber() {
    String script =
        "echo rank $RANK of $WORLD_SIZE, local $LOCAL_RANK, $MASTER_ADDR, $COLOUR, $0 $1";
    CommandLineRun run =
        CommandLineRun.of(
            "launch", "-n", "3", "--env", "COLOUR=blue", "sh", "-c", script, "-x", "--help");

    assertThat(run.code()).isEqualTo(ExitCodes.OK);
    assertThat(run.out().lines())
        .containsExactlyInAnyOrder(
            "[0] rank 0 of 3, local 0, 127.0.0.1, blue, -x --help",
            "[1] rank 1 of 3, local 1, 127.0.0.1, blue, -x --help",
            "[2] rank 2 of 3, local 2, 127.0.0.1, blue, -x --help");
  }

  /** The rendezvous of the launcher decides how long silence may last. */
  @Test
  void timesAndNameOfTheCallerReachTheRendezvousAndTheRanks() {
    Map<String, String> settings =
        Map.of(
            "EP4J_LIVENESS_MS", "9000",
            "EP4J_HEARTBEAT_MS", "300",
            "EP4J_JOIN_TIMEOUT_MS", "7000",
            "EP4J_JOB", "mine");
    try (LocalJob job = LocalJob.open(1, settings)) {
      assertThat(job.environment(0)).containsAllEntriesOf(settings);
    }

    CommandLineRun run =
        CommandLineRun.of(
            "launch",
            "-n",
            "1",
            "--env",
            "EP4J_LIVENESS_MS=8000",
            "sh",
            "-c",
            "echo $EP4J_LIVENESS_MS");
    assertThat(run.out()).contains("[0] 8000");
  }

  @Test
  void badTimesAreNamed() {
    CommandLineRun run =
        CommandLineRun.of("launch", "-n", "1", "--env", "EP4J_LIVENESS_MS=-1", "true");

    assertThat(run.code()).isEqualTo(ExitCodes.USAGE);
    assertThat(run.err()).contains("EP4J_LIVENESS_MS = -1");
  }

  @Test
  void anUnknownNamespaceIsReported() {
    CommandLineRun run = CommandLineRun.of("launch", "-n", "2", "--hosts", "no-such-ns", "true");

    assertThat(run.code()).isEqualTo(ExitCodes.UNAVAILABLE);
    assertThat(run.err()).contains("--hosts");
  }

  /** The JVM raises its limit to the hard one, which this shell lowers too. */
  @ParameterizedTest
  @CsvSource({"18, at least 24, 1", "24, starting 2 ranks takes 36, 4", "35, ulimit -n 36, 4"})
  void aLauncherWithTooFewDescriptorsNamesTheLimit(int descriptors, String needed, int code)
      throws Exception {
    CommandLineRun run = launchWith(descriptors);
    assertThat(run.err())
        .contains("EP4J-8016", "this process may have " + descriptors, needed, "ulimit -n")
        .doesNotContain("\tat ");
    assertThat(run.code()).isEqualTo(code);
  }

  @Test
  void aLauncherWithTheDescriptorsThatItAsksForStartsTheRanks() throws Exception {
    CommandLineRun run = launchWith(36);
    assertThat(run.code()).as("%s", run).isEqualTo(ExitCodes.OK);
  }

  private CommandLineRun launchWith(int descriptors) throws Exception {
    List<String> limited = List.of("sh", "-c", "ulimit -n " + descriptors + "; exec \"$@\"", "sh");
    try (CliProcess process =
        CliProcess.startIn(limited, scratch, Map.of(), "launch", "-n", "2", "true")) {
      return process.end();
    }
  }

  @Test
  void theSecretIsPassedInTheEnvironmentAndNotInArguments() throws Exception {
    CommandLineRun run =
        CliProcess.run(
            scratch,
            "launch",
            "-n",
            "1",
            "--no-prefix",
            "--",
            "sh",
            "-c",
            "echo $EP4J_SECRET; tr '\\0' ' ' < /proc/$$/cmdline; tr '\\0' ' ' <"
                + " /proc/$PPID/cmdline");

    List<String> lines = run.out().lines().toList();
    String secret = lines.getFirst();
    assertThat(secret).hasSize(64);
    assertThat(String.join("\n", lines.subList(1, lines.size())))
        .contains("launch")
        .doesNotContain(secret);
  }

  @Test
  void theExitCodeIsThatOfTheFirstRankThatFails() {
    CommandLineRun run =
        CommandLineRun.of(
            "launch", "-n", "3", "sh", "-c", "[ $RANK = 1 ] && exit 23; exec sleep 1000");

    assertThat(run.code()).isEqualTo(23);
    assertThat(run.err())
        .contains("EP4J-8004: rank 1 ended with exit code 23")
        .doesNotContain("\tat ");
  }

  @Test
  void killingTheLauncherEndsTheRanksAndTheirChildren() throws Exception {
    String script = "sleep 1000 & echo $! $$ > " + scratch + "/pid$RANK; echo up; wait";
    try (CliProcess launch =
        CliProcess.start(scratch, Map.of(), "launch", "-n", "2", "sh", "-c", script)) {
      launch.awaitOut("[0] up");
      launch.awaitOut("[1] up");
      launch.signal("KILL");
    }
    for (String file : List.of("pid0", "pid1")) {
      for (String pid : Files.readString(scratch.resolve(file)).strip().split(" ", -1)) {
        CliProcess.awaitGone(Long.parseLong(pid));
      }
    }
  }

  @Test
  void aRankHasItsGraceAfterTheLauncherIsKilledThoughOthersEndAtOnce() throws Exception {
    // The launcher, which read its standard error, has ended: a message there would end the shell.
    String script =
        "[ $RANK = 0 ] && { echo up; exec sleep 1000; }; trap 'sleep 1; touch saved; exit' TERM;"
            + " echo $$ >pid; echo up; exec 2>/dev/null; while :; do sleep 0.05; done";
    try (CliProcess launch =
        CliProcess.start(
            scratch, Map.of(), "launch", "-n", "2", "sh", "-c", "cd " + scratch + "; " + script)) {
      launch.awaitOut("[0] up");
      launch.awaitOut("[1] up");
      launch.signal("KILL");
    }
    CliProcess.awaitGone(Long.parseLong(Files.readString(scratch.resolve("pid")).strip()));
    assertThat(scratch.resolve("saved")).exists();
  }

  @Test
  void javaProgramsRunOnTheJdkOfTheLauncher() throws Exception {
    Path program = scratch.resolve("Program.java");
    Files.writeString(
        program,
        """
        class Program {
          public static void main(String[] arguments) {
            System.out.println(System.getProperty("java.home") + " " + arguments[0]);
            System.out.println(ModuleLayer.boot().findModule("jdk.incubator.vector").isPresent());
            System.out.println(Program.class.getModule().isNativeAccessEnabled());
          }
        }
        """);
    CommandLineRun run =
        CommandLineRun.of(
            "launch",
            "-n",
            "1",
            "--java",
            "--",
            program.toString(),
            "--hello",
            "-p", // an option of the program, not the module path of java
            "80");

    assertThat(run.code()).as(run.err()).isEqualTo(ExitCodes.OK);
    assertThat(run.out().lines())
        .containsExactly(
            "[0] " + System.getProperty("java.home") + " --hello", "[0] true", "[0] true");
  }

  @Test
  void aRankThatFailsIsRestartedAndTheOthersContinue() {
    String script =
        "[ $RANK = 0 ] && { while [ ! -e done ]; do sleep 0.02; done; echo waited; exit; }; echo"
            + " restart ${EP4J_RESTART:-none}; [ \"$EP4J_RESTART\" = 2 ] || exit 7; touch done";
    CommandLineRun run =
        CommandLineRun.of(
            "launch", "-n", "2", "--restart", "2", "sh", "-c", "cd " + scratch + "; " + script);

    assertThat(run.code()).as(run.err()).isEqualTo(ExitCodes.OK);
    assertThat(run.out().lines())
        .containsExactlyInAnyOrder(
            "[1] restart none", "[1] restart 1", "[1] restart 2", "[0] waited");
    assertThat(run.err())
        .contains("rank 1 ended with exit code 7: restarted (1 of 2)")
        .contains("restarted (2 of 2)");
  }

  @Test
  void aRankThatFailsOnceMoreThanItIsRestartedFailsTheLaunch() {
    CommandLineRun run =
        CommandLineRun.of("launch", "-n", "1", "--restart", "1", "sh", "-c", "exit 9");

    assertThat(run.code()).isEqualTo(9);
  }

  @ParameterizedTest
  @CsvSource({"INT, 130", "TERM, 143"})
  void endingTheLauncherEndsTheRanks(String signal, int code) throws Exception {
    String script = "echo $$ > " + scratch + "/pid$RANK; echo up; exec sleep 1000";
    try (CliProcess launch =
        CliProcess.start(scratch, Map.of(), "launch", "-n", "2", "sh", "-c", script)) {
      launch.awaitOut("[0] up");
      launch.awaitOut("[1] up");
      launch.signal(signal);
      assertThat(launch.end().code()).isEqualTo(code);
    }
    for (String file : List.of("pid0", "pid1")) {
      CliProcess.awaitGone(Long.parseLong(Files.readString(scratch.resolve(file)).strip()));
    }
  }

  @Test
  void badNumbersAreWrongUsage() {
    assertThat(CommandLineRun.of("launch", "-n", "0", "true").code()).isEqualTo(ExitCodes.USAGE);
    assertThat(CommandLineRun.of("launch", "-n", "two", "true").err())
        .contains("-n = two")
        .contains("two");
    assertThat(CommandLineRun.of("launch", "--ranks", "two", "true").err())
        .contains("--ranks = two");
    assertThat(CommandLineRun.of("launch", "true").err()).contains("--ranks");
    assertThat(CommandLineRun.of("launch", "-n", "2").err()).contains("COMMAND");
    for (String hosts : List.of("0", "3", "255")) {
      CommandLineRun run = CommandLineRun.of("launch", "-n", "2", "--hosts", hosts, "true");
      assertThat(run.code()).isEqualTo(ExitCodes.USAGE);
      assertThat(run.err()).contains("--hosts = " + hosts);
    }
  }
}
