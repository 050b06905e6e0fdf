package org.ep4j.wire;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.time.Duration;
import java.util.Map;
import javax.net.ssl.SSLContext;
import org.ep4j.config.WireOptions;
import org.ep4j.error.ErrorCode;
import org.ep4j.error.InvalidArgumentException;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

class WireEnvironmentTest {
  private static final Map<String, String> ALL =
      Map.of(
          "EP4J_WIRE", "ucx",
          "EP4J_WIRE_LANES", "6",
          "EP4J_WIRE_CONNECTIONS", "2",
          "EP4J_WIRE_BYTES_IN_FLIGHT", "1000",
          "EP4J_WIRE_OPERATIONS_IN_FLIGHT", "10",
          "EP4J_WIRE_ENCRYPTED", "true",
          "EP4J_WIRE_TIMEOUT_MS", "1500");

  @Test
  void variablesFillInWhatTheProgramLeavesOpen() {
    WireConfig config = WireConfig.builder().build(WireEnvironment.of(ALL));

    assertThat(config)
        .isEqualTo(
            new WireConfig(
                "ucx", lanes(6), 1, 1024, 1000, 10, 2, true, Duration.ofMillis(1500), ""));
  }

  @Test
  void anAutomaticWireIsLeftOpen() {
    assertThat(WireConfig.builder().wire("auto").build(WireEnvironment.of(ALL)).wire())
        .isEqualTo("ucx");
  }

  @Test
  void theProgramWins() {
    WireConfig config =
        WireConfig.builder()
            .wire("tcp")
            .lanes(3)
            .connections(1)
            .bytesInFlight(5)
            .operationsInFlight(7)
            .encrypted(false)
            .timeout(Duration.ofSeconds(9))
            .build(WireEnvironment.of(ALL));

    assertThat(config)
        .isEqualTo(
            new WireConfig("tcp", lanes(3), 1, 1024, 5, 7, 1, false, Duration.ofSeconds(9), ""));
  }

  @Test
  void certificatesOfTheCallerNeedEncryption() throws Exception {
    SSLContext own = SSLContext.getDefault();
    WireConfig.Builder builder = WireConfig.builder().sslContext(own);
    WireConfig config = builder.build(WireEnvironment.of(Map.of()));
    assertThat(config.encrypted()).isTrue();
    assertThat(config.sslContext()).isSameAs(own);
    assertThat(config.common()).contains("sslContext=given");
    assertThat(WireConfig.builder().options(config.options()).build(WireEnvironment.of(Map.of())))
        .isEqualTo(config);
    assertThatThrownBy(() -> builder.encrypted(false).build(WireEnvironment.of(Map.of())))
        .hasMessageContaining("sslContext");
  }

  @Test
  void withoutVariablesThereAreDefaults() {
    assertThat(WireConfig.builder().build(WireEnvironment.of(Map.of("EP4J_WIRE_LANES", " "))))
        .isEqualTo(
            new WireConfig(
                "auto",
                WireOptions.DEFAULT,
                1,
                1024,
                64L << 20,
                1024,
                0,
                false,
                Duration.ofSeconds(60),
                ""));
  }

  @ParameterizedTest
  @CsvSource({
    "EP4J_WIRE_LANES, four",
    "EP4J_WIRE_LANES, 1025",
    "EP4J_WIRE_CONNECTIONS, -1",
    "EP4J_WIRE_BYTES_IN_FLIGHT, 64M",
    "EP4J_WIRE_OPERATIONS_IN_FLIGHT, 99999999",
    "EP4J_WIRE_ENCRYPTED, yes",
    "EP4J_WIRE_TIMEOUT_MS, 0"
  })
  void badValuesAreRefusedWithTheVariablesName(String variable, String value) {
    assertThatThrownBy(() -> WireEnvironment.of(Map.of(variable, value)))
        .isInstanceOf(InvalidArgumentException.class)
        .hasMessageStartingWith(ErrorCode.WIRE_VARIABLE.message(variable + " = " + value));
  }

  @Test
  void connectionsMustSuitTheProgressContextsOfTheProgram() {
    WireEnvironment three = WireEnvironment.of(Map.of("EP4J_WIRE_CONNECTIONS", "3"));

    assertThatThrownBy(() -> WireConfig.builder().progressContexts(2).build(three))
        .hasMessageContaining("EP4J_WIRE_CONNECTIONS = 3");
  }

  @Test
  void aProgramWithoutProgressContextsIsRefused() {
    assertThatThrownBy(
            () -> WireConfig.builder().progressContexts(0).build(WireEnvironment.of(Map.of())))
        .hasMessageStartingWith(ErrorCode.WIRE_SETTING.message("progressContexts = 0"));
  }

  @Test
  void eachProgressContextOfTheProgramNeedsALane() {
    WireEnvironment one = WireEnvironment.of(Map.of("EP4J_WIRE_LANES", "1"));

    assertThatThrownBy(() -> WireConfig.builder().progressContexts(2).build(one))
        .hasMessageContaining("EP4J_WIRE_LANES = 1");
    assertThat(WireConfig.builder().progressContexts(2).lanes(4).build(one).lanes()).isEqualTo(4);
  }

  private static WireOptions lanes(int lanes) {
    return WireOptions.builder().lanes(lanes).build();
  }

  @Test
  void everySettingShowsWhetherItIsSet() {
    assertThat(WireEnvironment.of(Map.of("EP4J_WIRE", "tcp")).settings())
        .hasSize(7)
        .contains(new WireEnvironment.Setting("EP4J_WIRE", "tcp", true))
        .contains(new WireEnvironment.Setting("EP4J_WIRE_LANES", "0", false));
  }
}
