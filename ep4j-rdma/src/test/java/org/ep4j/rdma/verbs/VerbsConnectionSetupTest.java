package org.ep4j.rdma.verbs;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.catchThrowableOfType;

import java.io.IOException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.ep4j.ExpertBuffer;
import org.ep4j.config.BufferConfig;
import org.ep4j.config.EngineName;
import org.ep4j.config.WireOptions;
import org.ep4j.error.ErrorCode;
import org.ep4j.group.ThreadRanks;
import org.ep4j.rdma.softverbs.SoftVerbs;
import org.ep4j.rdma.verbs.ports.RdmaSettings;
import org.ep4j.wire.WireConfig;
import org.ep4j.wire.WireException;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.condition.EnabledIf;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** What queue pairs get when ranks connect them, and what the ranks say if one cannot. */
@EnabledIf("onEmulatedDevices")
class VerbsConnectionSetupTest {
  private static final Duration TIMEOUT = Duration.ofSeconds(30);

  /** The first rank and the last one share a port. */
  private static final List<String> PORTS = List.of("a0", "b0", "a0");

  private static final int REFUSED = 1;

  static boolean onEmulatedDevices() {
    return SoftVerbs.isSelected() && Fabric.present();
  }

  @ParameterizedTest
  @CsvSource({"2, RTR", "3, RTS"})
  void aQueuePairThatCannotConnectIsNamedByAllRanks(int state, String name) throws Exception {
    assertThat(errorsOfOpening(state))
        .allSatisfy(
            error -> {
              assertThat(error.errorCode()).isEqualTo(ErrorCode.WIRE_CONNECT);
              assertThat(error)
                  .hasMessageContaining("rank " + REFUSED + ": ")
                  .hasMessageContaining("cannot connect to rank 0: ")
                  .hasMessageContaining(name)
                  .hasMessageNotContaining("silent");
            });
  }

  /** An error of releasing what was made before would hide it. */
  @Test
  void aQueuePairThatCannotBeInitialisedIsNamedByAllRanks() throws Exception {
    assertThat(errorsOfOpening(1))
        .allSatisfy(
            error ->
                assertThat(error)
                    .hasMessageContaining("rank " + REFUSED + ": ")
                    .hasMessageContaining("ibv_modify_qp to INIT failed"));
  }

  /** Errors of all ranks where one port refuses a state of queue pairs. */
  private static List<WireException> errorsOfOpening(int state) throws Exception {
    SoftVerbs.refuse(PORTS.get(REFUSED), state);
    try {
      return ThreadRanks.call(
          PORTS.size(),
          group ->
              catchThrowableOfType(
                  WireException.class,
                  () ->
                      new VerbsConnectionSetup(group, config(), settings(), group.rank()).open()));
    } finally {
      SoftVerbs.refuse(PORTS.get(REFUSED), 0);
    }
  }

  @Test
  void wiresOfOneProcessHaveServiceLevelsAndTrafficClassesOfTheirOwn() throws Exception {
    int before = SoftVerbs.connections("a0").size();
    try (PairOfWires first = new PairOfWires(1, 2, wire(3, 32));
        PairOfWires second = new PairOfWires(1, 1, wire(5, 96));
        PairOfWires without = new PairOfWires(1, 1, WireConfig.builder())) {
      assertThat(List.of(first.a.failedLanes(), second.a.failedLanes(), without.a.failedLanes()))
          .containsOnly(0);
      assertThat(since(before, "a0"))
          .containsExactly(
              "service level 3 traffic class 32",
              "service level 3 traffic class 32",
              "service level 5 traffic class 96",
              "service level 0 traffic class 0");
    }
  }

  @Test
  void buffersOfOneProcessHaveServiceLevelsAndTrafficClassesOfTheirOwn() throws Exception {
    List<String> before = all();
    ThreadRanks.run(
        2,
        group -> {
          try (ExpertBuffer first = ExpertBuffer.open(group, buffer(3, 32));
              ExpertBuffer second = ExpertBuffer.open(group, buffer(5, 96))) {
            first.barrier();
            second.barrier();
          }
        });
    List<String> made = all();
    before.forEach(made::remove);
    assertThat(made.stream().map(VerbsConnectionSetupTest::traffic))
        .containsOnly("service level 3 traffic class 32", "service level 5 traffic class 96");
  }

  private static List<String> all() throws IOException {
    List<String> lines = new ArrayList<>();
    for (String port : List.of("a0", "a1", "b0", "b1")) {
      lines.addAll(SoftVerbs.connections(port));
    }
    return lines;
  }

  private static String traffic(String connection) {
    return connection.substring(connection.indexOf("service"));
  }

  private static List<String> since(int before, String port) throws IOException {
    List<String> lines = SoftVerbs.connections(port);
    return lines.subList(before, lines.size()).stream()
        .map(VerbsConnectionSetupTest::traffic)
        .toList();
  }

  private static WireConfig.Builder wire(int serviceLevel, int trafficClass) {
    return WireConfig.builder().options(options(serviceLevel, trafficClass));
  }

  private static WireOptions options(int serviceLevel, int trafficClass) {
    return WireOptions.builder().serviceLevel(serviceLevel).trafficClass(trafficClass).build();
  }

  private static BufferConfig buffer(int serviceLevel, int trafficClass) {
    return BufferConfig.builder()
        .engine(EngineName.HOST)
        .hidden(128)
        .topK(1)
        .experts(2)
        .ranksPerNode(1)
        .wire("verbs")
        .wireOptions(options(serviceLevel, trafficClass))
        .highThroughput(2)
        .timeout(TIMEOUT)
        .build();
  }

  private static WireConfig config() {
    return WireConfig.builder().wire("verbs").timeout(TIMEOUT).build();
  }

  private static RdmaSettings settings() {
    List<String> devices = PORTS.stream().map(Fabric::device).toList();
    return RdmaSettings.of(Map.of(RdmaSettings.HCA, String.join(";", devices)));
  }
}
