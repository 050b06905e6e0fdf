package org.ep4j.cli.top;

import static java.util.Objects.requireNonNull;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.io.IOException;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import org.ep4j.cli.CliProcess;
import org.ep4j.cli.CommandFailure;
import org.ep4j.cli.CommandLineRun;
import org.ep4j.cli.ExitCodes;
import org.ep4j.cli.text.Style;
import org.ep4j.error.ErrorCode;
import org.ep4j.group.Group;
import org.ep4j.group.GroupConfig;
import org.ep4j.group.ThreadRanks;
import org.ep4j.group.rendezvous.JobObserver;
import org.ep4j.group.rendezvous.Rendezvous;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class TopCommandTest {
  private static final String SECRET = "0f9d51c6a2b84e7390d1c5b7e86f2a34";
  private static final Duration TIMEOUT = Duration.ofSeconds(20);

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

  /** As ranks of torchrun, mpirun and srun, and of deep_ep, whose secret no variable holds. */
  @Test
  void aJobWhoseRanksHaveNoVariablesOfEp4jIsFound() throws Exception {
    withJob(
        (rendezvous, ranks) -> {
          String where = where(rendezvous);
          CommandLineRun seen = look(where);
          assertThat(seen.out()).as(seen.err()).contains(rendezvous.jobId(), "2 ranks, 2 alive");
          assertThat(LocalJobs.find()).containsKey(where);
        });
  }

  @Test
  void aJobThatEndsMeanwhileIsNoFailure() throws Exception {
    withJob(
        (rendezvous, ranks) -> {
          LocalJobs.Job job = requireNonNull(LocalJobs.find().get(where(rendezvous)));
          StringWriter shown = new StringWriter();
          try (JobObserver observer =
              JobObserver.open(requireNonNull(job.address()), job.secret(), TIMEOUT)) {
            TopScreen first = new TopScreen(observer.ask(TIMEOUT));
            rendezvous.close();
            TopCommand.follow(observer, first, 1, new PrintWriter(shown), Style.PLAIN);
          }
          assertThat(shown.toString())
              .contains("2 ranks, 2 alive")
              .endsWith("the job has ended" + System.lineSeparator());
          CommandLineRun later = look(where(rendezvous));
          assertThat(later.err()).contains(ErrorCode.SECRET_MISSING.id());
        });
  }

  /** Its launcher still has the rendezvous. */
  @Test
  void aJobThatEndsWhileTopConnectsAgainIsNoFailure() throws Exception {
    withJob(
        (rendezvous, ranks) -> {
          StringWriter shown = new StringWriter();
          JobObserver observer = JobObserver.open(rendezvous.address(), SECRET, TIMEOUT);
          try {
            TopScreen first = new TopScreen(observer.ask(TIMEOUT));
            // As after a question without an answer.
            observer.close();
            for (Group rank : ranks) {
              rank.close();
            }
            assertThat(rendezvous.awaitEnd(TIMEOUT)).isTrue();
            TopCommand.follow(observer, first, 1, new PrintWriter(shown), Style.PLAIN);
          } finally {
            observer.close();
          }
          assertThat(shown.toString()).endsWith("the job has ended" + System.lineSeparator());
        });
  }

  @Test
  void aJobFoundTwiceIsOneAndSeveralAreListed() throws Exception {
    Path processes = Files.createDirectory(scratch.resolve("proc"));
    withJob(
        (rendezvous, ranks) -> {
          String where = where(rendezvous);
          process(processes, 1, where, SECRET);
          process(processes, 2, "another-name:1", SECRET);
          process(processes, 3, "10.0.0.1:1", "another secret");
          Map<String, LocalJobs.Job> found = LocalJobs.find(System.getenv(), processes);
          assertThat(found).containsKeys(where, "10.0.0.1:1").doesNotContainKey("another-name:1");
          LocalJobs.Job job = requireNonNull(found.get(where));
          assertThat(job.text())
              .startsWith(where)
              .contains(rendezvous.jobId(), "2 ranks", "process");
          assertThatThrownBy(() -> TopCommand.only(found))
              .isInstanceOf(CommandFailure.class)
              .hasMessageContaining("--rendezvous " + job.text())
              .hasMessageContaining("--rendezvous 10.0.0.1:1");
        });
  }

  private static void process(Path processes, int pid, String where, String secret)
      throws IOException {
    Path process = Files.createDirectory(processes.resolve(Integer.toString(pid)));
    Files.writeString(
        process.resolve("environ"),
        String.join("\0", "EP4J_RENDEZVOUS=" + where, "EP4J_SECRET=" + secret, "EP4J_RANK=0"));
  }

  @FunctionalInterface
  private interface Body {
    void run(Rendezvous rendezvous, List<Group> ranks) throws Exception;
  }

  /** Runs the body beside a job of two ranks in this process, which has no variables for it. */
  private static void withJob(Body body) throws Exception {
    GroupConfig config =
        GroupConfig.builder()
            .size(2)
            .rendezvous("127.0.0.1", 0)
            .secret(SECRET)
            .hostsRendezvous(false)
            .build();
    try (Rendezvous rendezvous = Rendezvous.open(config)) {
      List<Group> ranks = ThreadRanks.call(2, me -> Group.join(rendezvous.configOf(me.rank())));
      try {
        body.run(rendezvous, ranks);
      } finally {
        ranks.forEach(Group::close);
      }
    }
  }

  private static String where(Rendezvous rendezvous) {
    return "127.0.0.1:" + rendezvous.address().getPort();
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
