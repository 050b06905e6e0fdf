package org.ep4j.c;

import static org.assertj.core.api.Assertions.assertThat;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.io.IOException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.UUID;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import org.ep4j.c.CProgram.Ended;
import org.ep4j.group.GroupConfig;
import org.ep4j.group.LaunchEnvironment;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/**
 * A C program calls every function of the table over the host engine, and checks every result. With
 * {@code -Dep4j.c.engine=cuda} and {@code EP4J_HOME} in the environment, the engine is that one.
 */
class ConformanceTest {
  private static final int KILLED = 137;
  private static final long EXIT_MILLIS = 1000;

  @TempDir static Path directory;

  private static CProgram program;

  @BeforeAll
  static void compile() throws Exception {
    program =
        CProgram.compile(
            directory,
            "conformance.c",
            "check.h",
            "model.h",
            "throughput.h",
            "lowlatency.h",
            "recovery.h",
            "interrupts.h");
  }

  @ParameterizedTest
  @ValueSource(ints = {1, 2, 4})
  void everyFunctionDoesWhatTheModelSays(int ranks) throws Exception {
    assumeTrue(ranks < 4 || Boolean.getBoolean("ep4j.full"), "4 ranks: with -Dep4j.full=true");
    for (Ended rank : program.run(world(ranks), "all")) {
      assertPassed(rank);
    }
  }

  @Test
  void ranksMayBeThreadsOfOneProcess() throws Exception {
    assertPassed(program.run(program.environment(), "threads"));
  }

  @Test
  void otherRanksLearnOfAKilledRankAndContinue() throws Exception {
    List<Ended> ranks = program.run(world(2), "kill");
    assertThat(ranks.get(1).status()).as(ranks.get(1).output()).isEqualTo(KILLED);
    assertPassed(ranks.get(0));
  }

  @Test
  void survivorsContinueInAGroupOfTheirOwn() throws Exception {
    List<Ended> ranks = program.run(world(3), "survive");
    assertThat(ranks.get(1).status()).as(ranks.get(1).output()).isEqualTo(KILLED);
    assertPassed(ranks.get(0));
    assertPassed(ranks.get(2));
  }

  @Test
  void newProcessReplacesAKilledRank() throws Exception {
    List<Map<String, String>> world = world(2);
    Map<String, String> first = world.getFirst();
    String port = Objects.requireNonNull(first.get("EP4J_RENDEZVOUS")).replaceAll(".*:", "");
    String secret = Objects.requireNonNull(first.get("EP4J_SECRET"));
    try (ExecutorService thread = Executors.newSingleThreadExecutor()) {
      Future<List<Ended>> ranks = thread.submit(() -> program.run(world, "readmit"));
      assertPassed(program.run(program.environment(), "rejoin", "2", port, secret));
      assertThat(ranks.get().get(1).status()).isEqualTo(KILLED);
      assertPassed(ranks.get().get(0));
    }
  }

  @Test
  void lateRankIsMaskedAndAdmittedAgain() throws Exception {
    for (Ended rank : program.run(world(4), "late")) {
      assertPassed(rank);
    }
  }

  @Test
  void processEndsQuietlyWithOpenBuffers() throws Exception {
    Ended rank = program.run(world(1), "exit").getFirst();
    long now = System.nanoTime() / 1_000_000;
    assertThat(rank.status()).as(rank.output()).isZero();
    String leaves =
        rank.output().lines().filter(line -> line.startsWith("leaves ")).findFirst().orElseThrow();
    // The clock of C is that of Java. The process must have ended before the test noticed it.
    assertThat(now - Long.parseLong(leaves.substring("leaves ".length()))).isLessThan(EXIT_MILLIS);
    assertThat(rank.output()).doesNotContain("SIG", "#");
  }

  @Test
  void otherThreadEndsTheWaitOfACall() throws Exception {
    assertPassed(program.run(program.environment(), "interrupt"));
  }

  @Test
  void forkedChildIsRefused() throws Exception {
    assertPassed(program.run(program.environment(), "fork"));
  }

  @Test
  void startWithoutInstallationNamesTheRemedy() throws Exception {
    assertStartFails(without("EP4J_HOME"), "EP4J-6130: EP4J_HOME is not set: set it to");
    assertStartFails(
        with("EP4J_HOME", directory.toString()), "EP4J-6130: EP4J_HOME = " + directory);
    Path colon = directory.resolve("a:b");
    Files.copy(
        program.jar(), Files.createDirectories(colon.resolve("lib")).resolve("ep4j-c-1.jar"));
    assertStartFails(
        with("EP4J_HOME", colon.toString()), "EP4J-6130: EP4J_HOME = " + colon + " has a ':'");
  }

  @Test
  void startWithoutJvmNamesTheRemedy() throws Exception {
    Map<String, String> none = without("EP4J_JAVA_HOME");
    none.put("JAVA_HOME", "");
    // A bundle, which may be the caller's, has a JVM of its own.
    none.put("EP4J_HOME", program.jar().resolveSibling("..").toString());
    assertStartFails(none, "EP4J-6131: no JVM: neither EP4J_JAVA_HOME nor JAVA_HOME is set");
    assertStartFails(
        with("EP4J_JAVA_HOME", directory.toString()),
        "EP4J-6131: no JVM: EP4J_JAVA_HOME = " + directory);
    Path wrong = Files.createDirectories(directory.resolve("wrong/lib/server"));
    Files.writeString(wrong.resolve("libjvm.so"), "no library");
    assertStartFails(
        with("EP4J_JAVA_HOME", directory.resolve("wrong").toString()),
        "EP4J-6131: " + wrong.resolve("libjvm.so") + " is not the library of a JVM");
  }

  @Test
  void presentJvmIsUsedIfItHasTheJars() throws Exception {
    Map<String, String> variables = program.environment();
    assertPrints(program.run(variables, "present", program.jar().toString()), "started");
    assertPrints(
        program.run(variables, "present", directory.toString()),
        "EP4J-6133: the JVM that this process has already does not load");
  }

  @Test
  void wrongOptionOfTheJvmIsReported() throws Exception {
    assertStartFails(
        with("EP4J_JVM_OPTIONS", "-XX:+NoSuchOption"), "EP4J-6132: the JVM does not start");
  }

  @Test
  void optionsOfTheJvmCountHoweverManyAndLong() throws Exception {
    String many = "-Dep4j.test=1 ".repeat(100);
    assertStartFails(with("EP4J_JVM_OPTIONS", many + "-XX:+NoSuchOption"), "EP4J-6132");
    String text = "-Dep4j.test=" + "x".repeat(5000);
    assertStartFails(with("EP4J_JVM_OPTIONS", text + " -XX:+NoSuchOption"), "EP4J-6132");
  }

  private static void assertPassed(Ended process) {
    assertThat(process.status()).as(process.output()).isZero();
    assertThat(process.output()).contains("passed");
  }

  private static void assertStartFails(Map<String, String> variables, String message)
      throws IOException, InterruptedException {
    assertPrints(program.run(variables, "start"), message);
  }

  private static void assertPrints(Ended process, String message) {
    assertThat(process.output()).contains(message);
    assertThat(process.status()).as(process.output()).isZero();
  }

  private static Map<String, String> with(String name, String value) {
    Map<String, String> variables = program.environment();
    variables.put(name, value);
    return variables;
  }

  private static Map<String, String> without(String name) {
    Map<String, String> variables = program.environment();
    variables.remove(name);
    return variables;
  }

  /** The environments of the ranks of a new group. */
  private static List<Map<String, String>> world(int ranks) throws IOException {
    int port;
    try (ServerSocket socket = new ServerSocket(0, 1, InetAddress.getLoopbackAddress())) {
      port = socket.getLocalPort();
    }
    String secret = UUID.randomUUID().toString() + UUID.randomUUID();
    List<Map<String, String>> environments = new ArrayList<>();
    for (int rank = 0; rank < ranks; rank++) {
      GroupConfig config =
          GroupConfig.builder()
              .rank(rank)
              .size(ranks)
              .rendezvous("127.0.0.1", port)
              .secret(secret)
              .build();
      Map<String, String> variables = program.environment();
      variables.putAll(LaunchEnvironment.variables(config, rank));
      environments.add(variables);
    }
    return environments;
  }
}
