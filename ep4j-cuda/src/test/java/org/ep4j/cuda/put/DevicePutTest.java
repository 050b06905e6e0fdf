package org.ep4j.cuda.put;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.time.Duration;
import java.util.List;
import org.ep4j.conformance.world.ProcessWorld;
import org.ep4j.conformance.world.RankJob;
import org.ep4j.conformance.world.ThreadWorld;
import org.ep4j.cuda.backend.PutShape;
import org.ep4j.cuda.driver.CudaDevice;
import org.ep4j.cuda.driver.calls.CudaDriver;
import org.ep4j.error.ConfigurationMismatchException;
import org.ep4j.error.ErrorCode;
import org.ep4j.error.InvalidArgumentException;
import org.ep4j.group.Group;
import org.ep4j.group.ThreadRanks;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

/** Puts, signals and flushes of kernels with backend {@code direct}. */
class DevicePutTest {
  private static final String STORES = "direct, stores";

  private static void requireGpus() {
    assumeTrue(CudaDriver.find().found(), () -> CudaDriver.find().problem());
    assumeTrue(CudaDevice.count() > 0, "no GPU");
  }

  @Test
  void threadsPutByStores() {
    requireGpus();
    new ThreadWorld().run(2, Exchange.class, List.of("direct", "0", "auto", STORES));
  }

  @Test
  void processesPutByStores() {
    requireGpus();
    new ProcessWorld().run(2, Exchange.class, List.of("direct", "0", "auto", STORES));
  }

  @ParameterizedTest
  @ValueSource(strings = {"inproc", "tcp"})
  void threadsOfTwoNodesPutByTheProxy(String wire) {
    requireGpus();
    new ThreadWorld().run(2, Exchange.class, List.of("direct", "1", wire, "proxy over " + wire));
  }

  @ParameterizedTest
  @ValueSource(strings = {"shm", "tcp"})
  void processesOfTwoNodesPutByTheProxy(String wire) {
    requireGpus();
    new ProcessWorld().run(2, Exchange.class, List.of("direct", "1", wire, "proxy over " + wire));
  }

  @Test
  void differingRanksAreReported() {
    ThreadRanks.run(
        2,
        group -> {
          PutShape shape = new PutShape(256L << group.rank(), 1, 1);
          PutConfig config = new PutConfig("direct", shape, 0, "auto", Duration.ofSeconds(10));
          assertThatThrownBy(() -> DevicePut.open(group, config))
              .isInstanceOf(ConfigurationMismatchException.class)
              .hasMessageStartingWith(ErrorCode.PUT_CONFIG_MISMATCH.id())
              .hasMessageContaining("bytes=512");
        });
  }

  @Test
  void ranksWithDifferentBackendsAreReported() {
    new ProcessWorld().run(2, OtherBackend.class, List.of());
  }

  @Test
  void invalidShapesAreRefused() {
    assertThatThrownBy(() -> new PutShape(100, 1, 1))
        .isInstanceOf(InvalidArgumentException.class)
        .hasMessageContaining("256");
    assertThatThrownBy(() -> new PutShape(128L << 30, 1, 1))
        .hasMessageStartingWith(ErrorCode.PUT_SHAPE.id());
    assertThatThrownBy(() -> new PutShape(256, 0, 1)).hasMessageContaining("lanes");
    assertThatThrownBy(() -> new PutShape(256, 1, 1 << 20)).hasMessageContaining("signals");
  }

  /** The products of the last values are small by overflow. */
  @ParameterizedTest
  @CsvSource({"12, 16", "0, 16", "-8, 16", "1024, 16", "8, 24", "8, 0", "8, 1152921504606846992"})
  void invalidProbesAreRefused(int warps, long bytes) {
    PutConfig config = PutConfig.of("direct", new PutShape(256, 1, 1));
    ThreadRanks.run(
        2,
        group ->
            assertThatThrownBy(() -> PutProbe.open(group, config, warps, bytes))
                .isInstanceOf(IllegalArgumentException.class)
                .hasMessageStartingWith(ErrorCode.PROBE_LOAD.id()));
  }

  /** The property of one process names another backend. */
  public static final class OtherBackend implements RankJob {
    /** Used by reflection. */
    public OtherBackend() {}

    @Override
    public void run(Group group, List<String> arguments) {
      System.setProperty("ep4j.backend", group.rank() == 1 ? "nccl" : "direct");
      PutConfig config = PutConfig.of("auto", new PutShape(256, 1, 1));
      assertThatThrownBy(() -> DevicePut.open(group, config))
          .isInstanceOf(ConfigurationMismatchException.class)
          .hasMessageContaining("backend=nccl")
          .hasMessageContaining("backend=direct");
    }
  }

  /**
   * Two ranks exchange blocks from kernels. Arguments: backend, ranks per node (0: those of a
   * host), wire between nodes, a part of the description of the transport.
   */
  public static final class Exchange implements RankJob {
    private static final PutShape ANY = new PutShape(256, 1, 1);
    private static final int WARPS = 16;
    private static final long[] SIZES = {16, 112, 4096, 14336, 131_072};

    /** Used by reflection. */
    public Exchange() {}

    @Override
    public void run(Group group, List<String> arguments) {
      PutConfig config =
          new PutConfig(
              arguments.get(0),
              ANY,
              Integer.parseInt(arguments.get(1)),
              arguments.get(2),
              Duration.ofSeconds(30));
      try (PutProbe probe = PutProbe.open(group, config, WARPS, SIZES[SIZES.length - 1])) {
        assertThat(probe.text()).contains(arguments.get(3));
        for (long size : SIZES) {
          assertThat(probe.exchange(size, 20)).as(size + " bytes").isZero();
          assertThat(probe.latency(size, 20)).isPositive();
          assertThat(probe.stream(WARPS, size, 10)).isPositive();
        }
        assertThat(probe.stream(1, SIZES[0], 2000)).isPositive();
        assertThat(probe.exchange(SIZES[2], 20)).isZero();
      }
    }
  }
}
