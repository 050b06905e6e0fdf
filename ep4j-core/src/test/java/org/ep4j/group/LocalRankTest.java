package org.ep4j.group;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.util.Map;
import java.util.OptionalInt;
import org.ep4j.error.ErrorCode;
import org.ep4j.error.InvalidArgumentException;
import org.junit.jupiter.api.Test;

class LocalRankTest {
  @Test
  void theLaunchersOwnVariableGoesBeforeThoseAroundIt() {
    // mpirun inside a step of SLURM.
    Map<String, String> variables =
        Map.of(
            "OMPI_COMM_WORLD_RANK",
            "5",
            "OMPI_COMM_WORLD_LOCAL_RANK",
            "1",
            "SLURM_PROCID",
            "0",
            "SLURM_LOCALID",
            "0",
            "SLURM_STEP_ID",
            "0");
    assertThat(LaunchEnvironment.localRank(variables)).hasValue(1);
  }

  @Test
  void ep4jGoesBeforeAll() {
    assertThat(
            LaunchEnvironment.localRank(
                Map.of("EP4J_LOCAL_RANK", "3", "RANK", "5", "LOCAL_RANK", "1")))
        .hasValue(3);
  }

  @Test
  void ranksSetByHandStillKnowTheirTask() {
    Map<String, String> variables =
        Map.of(
            "EP4J_RANK",
            "5",
            "EP4J_WORLD_SIZE",
            "8",
            "EP4J_RENDEZVOUS",
            "h:1",
            "EP4J_SECRET",
            "s",
            "SLURM_LOCALID",
            "1",
            "SLURM_STEP_ID",
            "0");
    assertThat(LaunchEnvironment.localRank(variables)).hasValue(1);
    assertThat(LaunchEnvironment.of(variables).localRank()).isEqualTo(1);
  }

  @Test
  void aBatchScriptIsNoTask() {
    assertThat(LaunchEnvironment.localRank(Map.of("SLURM_LOCALID", "0", "SLURM_PROCID", "0")))
        .isEqualTo(OptionalInt.empty());
  }

  @Test
  void nothingElseIsRead() {
    assertThat(LaunchEnvironment.localRank(Map.of("RANK", "x", "EP4J_RENDEZVOUS", "?"))).isEmpty();
    assertThat(LaunchEnvironment.localRank(Map.of())).isEmpty();
  }

  @Test
  void aValueThatIsNotANumberIsRefused() {
    assertThatThrownBy(() -> LaunchEnvironment.localRank(Map.of("LOCAL_RANK", "first")))
        .isInstanceOf(InvalidArgumentException.class)
        .hasMessageStartingWith(ErrorCode.LAUNCH_VARIABLE.id())
        .hasMessageContaining("LOCAL_RANK = 'first'");
  }
}
