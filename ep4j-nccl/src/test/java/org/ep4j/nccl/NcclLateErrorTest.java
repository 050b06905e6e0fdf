package org.ep4j.nccl;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.stream.Stream;
import org.ep4j.ExpertBuffer;
import org.ep4j.config.BufferConfig;
import org.ep4j.config.EngineName;
import org.ep4j.config.WireName;
import org.ep4j.conformance.world.StubLibraries;
import org.ep4j.cuda.driver.calls.CudaDriver;
import org.ep4j.cuda.driver.calls.DriverFunction;
import org.ep4j.error.Ep4jException;
import org.ep4j.group.Group;
import org.ep4j.group.ThreadRanks;
import org.ep4j.routing.Routing;
import org.ep4j.tensor.Tensor;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/**
 * NCCL reports an error of the wire {@code nccl} after it has accepted and ended a send, over stub
 * libraries of NCCL and of the driver ({@code late_errors.c}).
 */
class NcclLateErrorTest {
  private static final String TRIGGER = "EP4J_TEST_LOSES_FROM";
  private static final int RANKS = 3;
  private static final int TOKENS = 64;
  private static final int HIDDEN = 1024;

  /** A rank that notices nothing waits as long. */
  private static final Duration TIMEOUT = Duration.ofSeconds(40);

  private static final Duration SOON = Duration.ofSeconds(20);

  @TempDir private Path directory;

  /** Prints how the dispatches of three ranks end, one of which loses what it has sent. */
  public static final class Ranks {
    private Ranks() {}

    /** Entry point. */
    public static void main(String... arguments) {
      ThreadRanks.run(RANKS, Ranks::run);
    }

    private static void run(Group group) {
      try (ExpertBuffer buffer = ExpertBuffer.open(group, config())) {
        System.out.println("rank " + group.rank() + " has " + dispatch(buffer) + " rows");
        group.barrier(TIMEOUT);
        if (group.rank() == 0) {
          create(Path.of(System.getenv(TRIGGER)));
        }
        group.barrier(TIMEOUT);
        long start = System.nanoTime();
        try {
          System.out.println("rank " + group.rank() + " has again " + dispatch(buffer));
        } catch (Ep4jException e) {
          boolean soon = System.nanoTime() - start < SOON.toNanos();
          System.out.println(
              "rank " + group.rank() + (soon ? " soon: " : " late: ") + e.getMessage());
        }
        // A rank that leaves would be what the others report.
        group.barrier(TIMEOUT);
      }
    }

    private static void create(Path file) {
      try {
        Files.createFile(file);
      } catch (IOException e) {
        throw new UncheckedIOException(e);
      }
    }

    private static BufferConfig config() {
      return BufferConfig.builder()
          .engine(EngineName.HOST)
          .hidden(HIDDEN)
          .topK(RANKS)
          .experts(RANKS)
          .highThroughput(TOKENS)
          .ranksPerNode(1)
          .wire(WireName.NCCL)
          .timeout(TIMEOUT)
          .build();
    }

    /** Every token goes to every rank. */
    private static long dispatch(ExpertBuffer buffer) {
      long[] experts = new long[TOKENS * RANKS];
      for (int i = 0; i < experts.length; i++) {
        experts[i] = i % RANKS;
      }
      float[] weights = new float[experts.length];
      Arrays.fill(weights, 1);
      short[] rows = new short[TOKENS * HIDDEN];
      Routing routing = Routing.of(experts, weights, RANKS);
      return buffer.dispatch(Tensor.ofBf16(rows, TOKENS, HIDDEN), routing).rows();
    }
  }

  @Test
  void operationsOfAllRanksEndWithTheErrorBeforeTheirDeadline()
      throws IOException, InterruptedException {
    Path libraries =
        StubLibraries.compile(
            directory,
            "libnccl.so.2",
            StubLibraries.withOthers(
                source(),
                Stream.concat(
                    Arrays.stream(DriverFunction.values()).map(DriverFunction::symbol),
                    Arrays.stream(NcclFunction.values()).map(NcclFunction::symbol))));
    List<String> said =
        StubLibraries.run(
                Ranks.class,
                Map.of(
                    CudaDriver.LIBRARY_VARIABLE,
                    libraries.toString(),
                    "EP4J_NCCL_HOME",
                    libraries.toString(),
                    TRIGGER,
                    directory.resolve("loses").toString()))
            .lines()
            .filter(line -> line.startsWith("rank "))
            .sorted()
            .toList();
    assertThat(said).hasSize(2 * RANKS);
    for (int rank = 0; rank < RANKS; rank++) {
      assertThat(said.get(2 * rank)).isEqualTo("rank " + rank + " has " + RANKS * TOKENS + " rows");
      assertThat(said.get(2 * rank + 1))
          .startsWith("rank " + rank + " soon: EP4J-4")
          .contains("EP4J-6400: ncclSend failed", "the port is down");
    }
  }

  private static String source() throws IOException {
    try (InputStream in =
        Objects.requireNonNull(NcclLateErrorTest.class.getResourceAsStream("late_errors.c"))) {
      return new String(in.readAllBytes(), StandardCharsets.UTF_8);
    }
  }
}
