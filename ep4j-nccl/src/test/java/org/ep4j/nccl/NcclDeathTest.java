package org.ep4j.nccl;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.time.Duration;
import java.util.List;
import org.ep4j.ExpertBuffer;
import org.ep4j.config.BufferConfig;
import org.ep4j.conformance.world.ProcessWorld;
import org.ep4j.conformance.world.RankJob;
import org.ep4j.cuda.backend.BackendWorld;
import org.ep4j.cuda.backend.DeviceChoice;
import org.ep4j.cuda.driver.CudaDevice;
import org.ep4j.error.ErrorCode;
import org.ep4j.group.Group;
import org.ep4j.memory.Participants;
import org.junit.jupiter.api.Test;

/** Ranks that die while the others wait for them in NCCL. */
class NcclDeathTest {
  private static final Duration TIMEOUT = Duration.ofSeconds(30);

  @Test
  void rankThatDiesDuringCommunicatorInitIsNamedAndTheOthersContinue() {
    Gpus.require(2);
    new ProcessWorld(Duration.ofMinutes(2), Duration.ofSeconds(2))
        .run(2, DiesDuringInit.class, List.of());
  }

  /** Rank 1 ends before it joins the communicator. */
  public static final class DiesDuringInit implements RankJob {
    /** Used by reflection. */
    public DiesDuringInit() {}

    @Override
    public void run(Group group, List<String> arguments) {
      NcclBackendProvider provider = new NcclBackendProvider();
      try (CudaDevice device = CudaDevice.open(DeviceChoice.ordinal(group))) {
        device.makeCurrent();
        BackendWorld world =
            BackendWorld.gather(Participants.ofAll(group), device, TIMEOUT, provider.probe());
        assertThatThrownBy(() -> NcclCommunicator.open(world, new byte[64]))
            .isInstanceOf(NcclException.class)
            .hasMessageContaining(ErrorCode.NCCL_UNIQUE_ID.id())
            .hasMessageContaining("has 64 bytes, not 128");
        byte[] mine = group.rank() == 0 ? provider.uniqueId() : new byte[0];
        byte[] id = group.allGather(mine, TIMEOUT)[0];
        if (group.rank() == 1) {
          Runtime.getRuntime().halt(0);
        }
        long start = System.nanoTime();
        assertThatThrownBy(() -> NcclCommunicator.open(world, id))
            .isInstanceOf(NcclException.class)
            .hasMessageContaining(ErrorCode.NCCL_RANK_LOST.id())
            .hasMessageContaining("rank 1 is gone while ncclCommInitRankConfig waits for it");
        assertThat(Duration.ofNanos(System.nanoTime() - start)).isLessThan(TIMEOUT);
      }
      try (Group live = group.survivors(TIMEOUT);
          ExpertBuffer buffer = ExpertBuffer.open(live, config())) {
        assertThat(buffer.config().backend()).isEqualTo("direct");
        buffer.barrier();
      }
    }

    private static BufferConfig config() {
      return BufferConfig.builder()
          .hidden(128)
          .topK(1)
          .experts(8)
          .highThroughput(8)
          .engine("cuda")
          .backend("direct")
          .build();
    }
  }
}
