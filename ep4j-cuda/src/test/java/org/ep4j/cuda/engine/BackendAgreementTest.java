package org.ep4j.cuda.engine;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.util.List;
import org.ep4j.config.BufferConfig;
import org.ep4j.conformance.world.ProcessWorld;
import org.ep4j.conformance.world.RankJob;
import org.ep4j.cuda.internode.WireChoice;
import org.ep4j.engine.world.ConfigAgreement;
import org.ep4j.error.ConfigurationMismatchException;
import org.ep4j.group.Group;
import org.ep4j.routing.ExpertPlacement;
import org.junit.jupiter.api.Test;

/** Ranks with different backends. */
class BackendAgreementTest {
  @Test
  void aBackendThatDiffersIsRefusedOnAllRanksWithBothNames() {
    new ProcessWorld().run(3, Differing.class, List.of());
  }

  @Test
  void effectiveValuesOfVariablesAreCompared() {
    new ProcessWorld().run(2, Same.class, List.of());
  }

  @Test
  void backendNcclImpliesWireNcclUnlessAnotherIsChosen() {
    BufferConfig nccl =
        BufferConfig.builder()
            .hidden(128)
            .topK(1)
            .experts(4)
            .highThroughput(1)
            .backend("nccl")
            .build();
    assertThat(WireChoice.of(nccl.backend(), nccl.wire())).isEqualTo("nccl");
    assertThat(WireChoice.of("nccl", "tcp")).isEqualTo("tcp");
    assertThat(WireChoice.of("direct", "auto")).isEqualTo("auto");
  }

  private static BufferConfig config(Group group, String backend) {
    return BufferConfig.builder()
        .hidden(128)
        .topK(1)
        .placement(ExpertPlacement.blocks(4, group.size()))
        .highThroughput(1)
        .backend(backend)
        .build();
  }

  /** The property of one process names another backend. */
  public static final class Differing implements RankJob {
    /** Used by reflection. */
    public Differing() {}

    @Override
    public void run(Group group, List<String> arguments) {
      System.setProperty("ep4j.backend", group.rank() == 1 ? "nccl" : "direct");
      assertThatThrownBy(
              () ->
                  ConfigAgreement.require(group, CudaBufferOpening.settled(config(group, "auto"))))
          .isInstanceOf(ConfigurationMismatchException.class)
          .hasMessageContaining("rank 1 differs in backend: nccl there, direct on rank 0");
    }
  }

  /** One process sets in its program what the other process takes from a property. */
  public static final class Same implements RankJob {
    /** Used by reflection. */
    public Same() {}

    @Override
    public void run(Group group, List<String> arguments) {
      if (group.rank() == 1) {
        System.setProperty("ep4j.backend", "nvshmem");
      }
      String said = group.rank() == 1 ? "auto" : "nvshmem";
      BufferConfig config = CudaBufferOpening.settled(config(group, said));
      ConfigAgreement.require(group, config);
      assertThat(config.backend()).isEqualTo("nvshmem");
    }
  }
}
