package org.ep4j.cuda.backend;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.util.Map;
import org.ep4j.error.ErrorCode;
import org.ep4j.error.InvalidArgumentException;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Needs no GPU. */
class DeviceChoiceTest {
  private static final int DEVICES = 4;
  private static final int RANK = 9;

  private static int ofProcess(Map<String, String> variables) {
    return DeviceChoice.ordinal(RANK, false, variables, DEVICES);
  }

  @ParameterizedTest
  @ValueSource(
      strings = {"EP4J_LOCAL_RANK", "LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "SLURM_LOCALID"})
  void aProcessTakesTheDeviceOfItsNumberOnTheHost(String variable) {
    assertThat(ofProcess(Map.of(variable, "2", "SLURM_STEP_ID", "0"))).isEqualTo(2);
    assertThat(ofProcess(Map.of(variable, "6", "SLURM_STEP_ID", "0"))).isEqualTo(2);
  }

  @Test
  void theVariableOfTheDeviceTakesPrecedence() {
    assertThat(ofProcess(Map.of("EP4J_CUDA_DEVICE", " 3 ", "LOCAL_RANK", "2"))).isEqualTo(3);
    // Passed to the driver, which lists the visible devices.
    assertThat(ofProcess(Map.of("EP4J_CUDA_DEVICE", "7"))).isEqualTo(7);
  }

  @Test
  void otherwiseTheRankSelectsTheDevice() {
    assertThat(ofProcess(Map.of())).isEqualTo(RANK % DEVICES);
    assertThat(ofProcess(Map.of("LOCAL_RANK", " ", "EP4J_CUDA_DEVICE", ""))).isEqualTo(1);
  }

  @Test
  void threadsOfAProcessIgnoreItsVariables() {
    Map<String, String> ofProcess = Map.of("EP4J_CUDA_DEVICE", "3", "LOCAL_RANK", "2");
    assertThat(DeviceChoice.ordinal(5, true, ofProcess, DEVICES)).isEqualTo(1);
  }

  @Test
  void aBadNumberIsNamed() {
    assertThatThrownBy(() -> ofProcess(Map.of("EP4J_CUDA_DEVICE", "gpu0")))
        .isInstanceOf(InvalidArgumentException.class)
        .hasMessageStartingWith(ErrorCode.CUDA_DEVICE.id())
        .hasMessageContaining("EP4J_CUDA_DEVICE = 'gpu0'");
    assertThatThrownBy(() -> ofProcess(Map.of("SLURM_LOCALID", "-1", "SLURM_STEP_ID", "0")))
        .isInstanceOf(IllegalArgumentException.class)
        .hasMessageContaining("SLURM_LOCALID = -1");
  }
}
