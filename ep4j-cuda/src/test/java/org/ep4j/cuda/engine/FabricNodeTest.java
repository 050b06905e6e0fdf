package org.ep4j.cuda.engine;

import static org.assertj.core.api.Assertions.assertThat;

import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import org.ep4j.Dispatch;
import org.ep4j.DispatchHandle;
import org.ep4j.DispatchOptions;
import org.ep4j.ExpertBuffer;
import org.ep4j.Tokens;
import org.ep4j.config.Layout;
import org.ep4j.conformance.world.ProcessWorld;
import org.ep4j.conformance.world.RankJob;
import org.ep4j.conformance.world.RankProcesses;
import org.ep4j.conformance.world.StubLibraries;
import org.ep4j.cuda.backend.DeviceChoice;
import org.ep4j.cuda.driver.CudaDevice;
import org.ep4j.cuda.driver.Gpu;
import org.ep4j.cuda.driver.ManagementStub;
import org.ep4j.cuda.driver.VmmMemory;
import org.ep4j.cuda.driver.calls.NvmlCalls;
import org.ep4j.error.Ep4jException;
import org.ep4j.group.Group;
import org.ep4j.memory.SymmetricMemory;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/**
 * Two processes that share no host memory, with GPUs that one NVLink domain joins, as a stand-in
 * for the management library reports. They are one node if the driver has fabric handles for them,
 * else two; rows are the same.
 */
class FabricNodeTest {
  private static final int RANKS = 2;
  private static final int TOKENS = 300;
  private static final Duration LIMIT = Duration.ofMinutes(2);

  @Test
  void hostsAreOneNodeIfTheDriverHasFabricHandles(@TempDir Path directory) throws Exception {
    Gpu.require(1);
    Path nvml = StubLibraries.compile(directory, "libdomain.so", ManagementStub.source(""));
    try (RankProcesses processes =
        new ProcessWorld(LIMIT, Duration.ofSeconds(10), "1g")
            .start(
                RANKS,
                Job.class,
                List.of(),
                rank ->
                    Map.of(
                        NvmlCalls.LIBRARY_VARIABLE,
                        nvml.toString(),
                        SymmetricMemory.DIRECTORY_VARIABLE,
                        host(directory, rank)))) {
      processes.awaitSuccess(LIMIT);
    }
  }

  /** Host memory of its own. */
  private static String host(Path directory, int rank) {
    Path own = directory.resolve("host" + rank);
    assertThat(own.toFile().mkdir() || Files.isDirectory(own)).isTrue();
    return own.toString();
  }

  /** Dispatches and compares with the oracle. */
  public static final class Job implements RankJob {
    /** Used by reflection. */
    public Job() {}

    @Override
    public void run(Group group, List<String> arguments) {
      int rank = group.rank();
      try (CudaDevice device = CudaDevice.open(DeviceChoice.ordinal(group));
          Batch batch = new Batch(device, TOKENS);
          ExpertBuffer buffer =
              ExpertBuffer.open(group, Batch.config(TOKENS).wire("tcp").build())) {
        assertThat(buffer.config().ranksPerNode()).isEqualTo(hasFabricHandles(device) ? RANKS : 1);
        for (Layout layout : List.of(Layout.FLAT, Layout.EXPERT_MAJOR)) {
          batch.fill(rank, 1);
          Dispatch dispatch =
              buffer.dispatch(layout, Tokens.of(batch.x), batch.routing, DispatchOptions.DEFAULT);
          new Expected(RANKS, TOKENS, 1, layout, 1).checkDispatch(rank, dispatch);
          try (DispatchHandle _ = dispatch.handle()) {
            buffer.barrier();
          }
        }
      }
    }

    private static boolean hasFabricHandles(CudaDevice device) {
      try (VmmMemory memory = VmmMemory.allocate(device, 1, VmmMemory.Sharing.FABRIC, false)) {
        return memory.exportFabric().length > 0;
      } catch (Ep4jException e) {
        return false;
      }
    }
  }
}
