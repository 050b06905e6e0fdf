package org.ep4j.cuda.internode;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.time.Duration;
import java.util.Map;
import javax.net.ssl.SSLContext;
import org.ep4j.config.WireName;
import org.ep4j.config.WireOptions;
import org.ep4j.cuda.internode.proxy.ProxyConfig;
import org.ep4j.error.ErrorCode;
import org.ep4j.error.InvalidArgumentException;
import org.ep4j.group.ThreadRanks;
import org.ep4j.wire.Wire;
import org.ep4j.wire.WireException;
import org.ep4j.wire.Wires;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class InternodeWireTest {
  private static InternodeWire settings(int threads, WireOptions options) {
    return InternodeWire.of(
        WireName.TCP,
        options,
        Duration.ofSeconds(30),
        Map.of(ProxyConfig.THREADS_VARIABLE, String.valueOf(threads)));
  }

  private static WireOptions lanes(int lanes) {
    return WireOptions.builder().lanes(lanes).build();
  }

  private static int lanesPerThread(int threads, WireOptions options) {
    return ThreadRanks.call(
            2,
            group -> {
              InternodeWire settings = settings(threads, options);
              try (Wire wire = Wires.open(group, settings.config(group, 1, ""))) {
                return settings.lanesPerThread(wire);
              }
            })
        .getFirst();
  }

  @Test
  void theThreadsShareTheLanesOfTheWire() {
    assertThat(lanesPerThread(2, lanes(6))).isEqualTo(3);
    assertThat(lanesPerThread(3, WireOptions.DEFAULT)).isEqualTo(4);
    assertThat(lanesPerThread(1, lanes(1))).isEqualTo(1);
  }

  @Test
  void lanesThatThreadsCannotShareAreRefused() {
    ThreadRanks.run(
        2,
        group -> {
          assertThatThrownBy(() -> settings(2, lanes(5)).config(group, 1, ""))
              .isInstanceOf(InvalidArgumentException.class)
              .hasMessageStartingWith(ErrorCode.PROXY_CONFIG.id())
              .hasMessageContaining("a multiple of EP4J_PROXY_THREADS (2)");
          // A command names one of 256 lanes.
          assertThatThrownBy(() -> settings(1, lanes(257)).config(group, 1, ""))
              .isInstanceOf(InvalidArgumentException.class)
              .hasMessageContaining("at most 256");
        });
  }

  @ParameterizedTest
  @ValueSource(ints = {-1, 0, 9})
  void numbersOfThreadsOutOfRangeAreRefused(int threads) {
    assertThatThrownBy(() -> settings(threads, WireOptions.DEFAULT))
        .isInstanceOf(InvalidArgumentException.class)
        .hasMessageStartingWith(ErrorCode.PROXY_CONFIG.id())
        .hasMessageContaining("EP4J_PROXY_THREADS")
        .hasMessageContaining("1 to 8");
  }

  /** A context that cannot work shows that the wire asks it. */
  @Test
  void certificatesOfTheCallerReachTheWire() throws Exception {
    SSLContext notInitialized = SSLContext.getInstance("TLSv1.3");
    WireOptions options = WireOptions.builder().sslContext(notInitialized).build();
    ThreadRanks.run(
        2,
        group ->
            assertThatThrownBy(() -> Wires.open(group, settings(1, options).config(group, 1, "")))
                .isInstanceOf(WireException.class)
                .hasMessageContaining("the sslContext of this rank"));
  }
}
