package org.ep4j.jlama;

import static org.assertj.core.api.Assertions.assertThat;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import com.github.tjake.jlama.safetensors.prompt.PromptContext;
import java.io.IOException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.UUID;
import java.util.concurrent.TimeUnit;
import org.ep4j.examples.jlama.Generate;
import org.ep4j.group.Group;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Ranks as processes that run the program. */
class GenerateTest {
  private static final int TOKENS = 16;
  private static final List<String> PROMPTS = List.of("AB", "abc", "T", "Zyxw");

  private final List<Process> ranks = new ArrayList<>();

  @TempDir Path directory;

  @BeforeEach
  void write() throws IOException {
    TinyMixtral.random(1).write(directory);
  }

  @AfterEach
  void end() {
    ranks.forEach(Process::destroyForcibly);
  }

  @Test
  void processesPrintTheTextsOfOneThread() throws Exception {
    assumeTrue(Boolean.getBoolean("ep4j.full"), "10 s: with -Dep4j.full=true");
    start(PROMPTS);
    List<String> texts = alone(PROMPTS);
    for (int rank = 0; rank < 2; rank++) {
      List<String> expected = new ArrayList<>();
      for (int i = rank; i < texts.size(); i += 2) {
        expected.add(texts.get(i));
      }
      assertThat(ranks.get(rank).waitFor(60, TimeUnit.SECONDS)).isTrue();
      assertThat(ranks.get(rank).exitValue()).as("rank %d: %s", rank, errors(rank)).isZero();
      assertThat(lines(rank)).isEqualTo(expected);
    }
  }

  /** A rank killed between steps or by a token costs nothing but its experts. */
  @Test
  void aKilledProcessIsMaskedOrEndsAPromptWithTheDocumentedError() throws Exception {
    assumeTrue(Boolean.getBoolean("ep4j.full"), "20 s: with -Dep4j.full=true");
    List<String> prompts = new ArrayList<>();
    for (int i = 0; i < 80; i++) {
      prompts.add(PROMPTS.get(i % PROMPTS.size()));
    }
    start(prompts);
    long deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(60);
    while (lines(1).size() < 3) {
      assertThat(System.nanoTime()).as("rank 1: %s", errors(1)).isLessThan(deadline);
      Thread.sleep(2);
    }
    ranks.get(1).destroyForcibly();
    assertThat(ranks.get(0).waitFor(60, TimeUnit.SECONDS)).isTrue();
    if (ranks.get(0).exitValue() == 0) {
      assertThat(lines(0)).hasSize(prompts.size() / 2);
    } else {
      assertThat(errors(0)).contains("PeerTimeoutException: EP4J-4");
    }
  }

  private void start(List<String> prompts) throws IOException {
    int port;
    try (ServerSocket free = new ServerSocket(0, 1, InetAddress.getLoopbackAddress())) {
      port = free.getLocalPort();
    }
    String secret = UUID.randomUUID().toString();
    for (int rank = 0; rank < 2; rank++) {
      List<String> command =
          new ArrayList<>(
              List.of(
                  Path.of(System.getProperty("java.home"), "bin", "java").toString(),
                  "--add-modules=jdk.incubator.vector",
                  "--enable-native-access=ALL-UNNAMED",
                  "-cp",
                  System.getProperty("java.class.path"),
                  Generate.class.getName(),
                  directory.toString(),
                  String.valueOf(TOKENS)));
      command.addAll(prompts);
      ProcessBuilder builder = new ProcessBuilder(command);
      builder.environment().put("EP4J_RANK", String.valueOf(rank));
      builder.environment().put("EP4J_WORLD_SIZE", "2");
      builder.environment().put("EP4J_RENDEZVOUS", "127.0.0.1:" + port);
      builder.environment().put("EP4J_SECRET", secret);
      builder.redirectOutput(directory.resolve("out" + rank).toFile());
      builder.redirectError(directory.resolve("err" + rank).toFile());
      ranks.add(builder.start());
    }
  }

  private List<String> lines(int rank) throws IOException {
    return Files.readAllLines(directory.resolve("out" + rank));
  }

  private String errors(int rank) throws IOException {
    return Files.readString(directory.resolve("err" + rank));
  }

  /** The texts of a world of one rank, by Jlama's method. */
  private List<String> alone(List<String> prompts) {
    Group group = Group.inProcess(1).getFirst();
    try (group;
        var model = ExpertParallelMixtral.load(directory, group, Duration.ofSeconds(30))) {
      return prompts.stream()
          .map(
              prompt ->
                  prompt
                      + model.generate(
                              UUID.randomUUID(),
                              PromptContext.of(prompt),
                              0,
                              TOKENS,
                              (token, millis) -> {})
                          .responseText)
          .toList();
    }
  }
}
