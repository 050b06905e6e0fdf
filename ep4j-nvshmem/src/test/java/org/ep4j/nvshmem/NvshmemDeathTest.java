package org.ep4j.nvshmem;

import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.time.Duration;
import java.util.List;
import org.ep4j.conformance.world.ProcessWorld;
import org.ep4j.conformance.world.RankJob;
import org.ep4j.cuda.backend.BackendWorld;
import org.ep4j.cuda.backend.DeviceChoice;
import org.ep4j.cuda.driver.CudaDevice;
import org.ep4j.error.Ep4jException;
import org.ep4j.error.ErrorCode;
import org.ep4j.group.Group;
import org.ep4j.memory.Participants;
import org.junit.jupiter.api.Test;

/** Ranks that die while the others wait for them in NVSHMEM. */
class NvshmemDeathTest {
  private static final Duration TIMEOUT = Duration.ofSeconds(30);

  @Test
  void rankThatDiesDuringNvshmemInitIsNamed() {
    Gpus.require(2);
    new ProcessWorld(Duration.ofMinutes(2), Duration.ofSeconds(2))
        .run(2, DiesDuringInit.class, List.of());
  }

  /** Rank 1 ends before it joins the start. */
  public static final class DiesDuringInit implements RankJob {
    /** Used by reflection. */
    public DiesDuringInit() {}

    @Override
    public void run(Group group, List<String> arguments) {
      NvshmemBackendProvider provider = new NvshmemBackendProvider();
      try (CudaDevice device = CudaDevice.open(DeviceChoice.ordinal(group))) {
        device.makeCurrent();
        BackendWorld world =
            BackendWorld.gather(Participants.ofAll(group), device, TIMEOUT, provider.probe());
        assertThatThrownBy(() -> NvshmemRuntime.start(world, new byte[64]))
            .isInstanceOf(NvshmemException.class)
            .hasMessageContaining(ErrorCode.NVSHMEM_INCOMPATIBLE.id())
            .hasMessageContaining("has 64 bytes, not 128");
        assertThatThrownBy(() -> NvshmemRuntime.start(world, new byte[128]))
            .isInstanceOf(NvshmemException.class)
            .hasMessageContaining("is of kind 0x0, not 0x10080");
        byte[] mine = group.rank() == 0 ? provider.uniqueId(world) : new byte[0];
        byte[] id = group.allGather(mine, TIMEOUT)[0];
        if (group.rank() == 1) {
          Runtime.getRuntime().halt(0);
        }
        assertThatThrownBy(() -> NvshmemRuntime.start(world, id))
            .isInstanceOf(Ep4jException.class)
            .hasMessageContaining("rank 1 is gone while nvshmemx_hostlib_init_attr waits for it");
        assertThatThrownBy(() -> NvshmemRuntime.start(world, id))
            .isInstanceOf(NvshmemException.class)
            .hasMessageContaining(ErrorCode.NVSHMEM_BROKEN.id());
      }
    }
  }
}
