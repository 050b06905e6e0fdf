package org.ep4j.rdma.verbs.ports;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.util.Map;
import org.ep4j.config.WireOptions;
import org.ep4j.error.InvalidArgumentException;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

class RdmaSettingsTest {
  @Test
  void unsetVariablesMeanTheDefaults() {
    RdmaSettings settings = RdmaSettings.of(Map.of(RdmaSettings.HCA, " ", "OTHER", "1"));
    assertThat(settings).isEqualTo(RdmaSettings.DEFAULTS);
    assertThat(settings.gidIndex()).isEqualTo(-1);
    assertThat(settings.portsOf(5)).isEmpty();
    assertThat(settings.gpuDirect()).isFalse();
  }

  @Test
  void optionsOfAWireWin() {
    RdmaSettings ofProcess =
        RdmaSettings.of(Map.of(RdmaSettings.SERVICE_LEVEL, "3", RdmaSettings.QPS_PER_PORT, "2"));
    WireOptions options = WireOptions.builder().lanes(5).queuePairs(4).gpuDirect(true).build();

    RdmaSettings settings = ofProcess.with(options);

    assertThat(settings.queuePairsPerPort()).isEqualTo(4);
    assertThat(settings.gpuDirect()).isTrue();
    assertThat(settings.serviceLevel()).isEqualTo(3);
    assertThat(settings.applied(options))
        .isEqualTo(options.toBuilder().serviceLevel(3).trafficClass(0).build());
    assertThat(ofProcess.with(WireOptions.DEFAULT)).isEqualTo(ofProcess);
  }

  @Test
  void portsOfLocalRanksAreTakenInOrder() {
    RdmaSettings settings =
        RdmaSettings.of(Map.of(RdmaSettings.HCA, "mlx5_0:1, mlx5_1:2; rxe_a.0"));
    assertThat(settings.portsOf(0)).containsExactly("mlx5_0:1", "mlx5_1:2");
    assertThat(settings.portsOf(1)).containsExactly("rxe_a.0:1");
    assertThat(settings.portsOf(2)).isEqualTo(settings.portsOf(0));
  }

  @ParameterizedTest
  @CsvSource({
    "EP4J_IB_HCA, 'mlx5_0:1,'",
    "EP4J_IB_HCA, 'mlx5_0:0'",
    "EP4J_IB_HCA, 'mlx5_0:x'",
    "EP4J_IB_HCA, 'a,b,c,d,e,f,g,h,i'",
    "EP4J_IB_GID_INDEX, -2",
    "EP4J_IB_SL, 16",
    "EP4J_IB_TRAFFIC_CLASS, 256",
    "EP4J_IB_QPS_PER_PORT, 0",
    "EP4J_IB_QPS_PER_PORT, four",
    "EP4J_IB_QP_DEPTH, 15",
    "EP4J_IB_TIMEOUT, 0",
    "EP4J_IB_RETRY_COUNT, 8",
    "EP4J_IB_GPUDIRECT, 2",
    "EP4J_IB_GPUDIRECT, yes",
  })
  void badValuesAreRefusedByName(String variable, String value) {
    assertThatThrownBy(() -> RdmaSettings.of(Map.of(variable, value)))
        .isInstanceOf(InvalidArgumentException.class)
        .hasMessageStartingWith("EP4J-195")
        .hasMessageContaining(variable);
  }
}
