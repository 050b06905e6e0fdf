package org.ep4j.wire;

import static org.assertj.core.api.Assertions.assertThat;

import java.lang.System.Logger.Level;
import java.time.Duration;
import java.util.List;
import java.util.Locale;
import java.util.function.IntPredicate;
import org.ep4j.config.WireName;
import org.ep4j.conformance.world.LogLines;
import org.ep4j.conformance.world.LogLines.Line;
import org.ep4j.error.ErrorCode;
import org.ep4j.group.Group;
import org.ep4j.group.GroupConfig;
import org.ep4j.group.ThreadRanks;
import org.ep4j.group.rendezvous.Rendezvous;
import org.ep4j.wire.PortedWireProvider.Plan;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;

/** What {@code auto} takes between hosts, with a wire that has ports of its own. */
class AutoWireTest {
  private static final int RANKS = 3;
  private static final Duration LIMIT = Duration.ofSeconds(30);

  /** Also the deadline of the probe, for which one of the tests waits. */
  private static final Duration TIMEOUT = Duration.ofSeconds(3);

  private final LogLines log = new LogLines("org.ep4j.wire");

  @AfterEach
  void restore() {
    log.close();
    PortedWireProvider.plan = Plan.WORKING;
  }

  @Test
  void portsThatReachAllRanksAreTaken() {
    assertThat(open(Plan.WORKING, rank -> true, WireName.AUTO)).containsOnly("carried");
    assertThat(log.lines()).isEmpty();
  }

  @Test
  void withoutPortsTcpIsTakenSilently() {
    assertThat(open(Plan.WORKING, rank -> false, WireName.AUTO)).containsOnly("tcp");
    assertThat(log.lines()).isEmpty();
  }

  @Test
  void aRankWithoutAPortMakesAllTakeTcp() {
    assertThat(open(Plan.WORKING, rank -> rank != 2, WireName.AUTO)).containsOnly("tcp");
    // Ranks 0 and 1 have hosts of their own; rank 2 has no port that is idle.
    assertThat(log.lines()).hasSize(2).allSatisfy(line -> assertFallback(line, "rank 2 on host "));
    assertThat(log.lines()).allSatisfy(line -> assertThat(line.text()).contains("no active port"));
  }

  @Test
  void aPortThatARankCannotUseMakesAllTakeTcp() {
    Plan plan = Plan.unusable(1, "install\tthe driver");
    assertThat(open(plan, rank -> true, WireName.AUTO)).containsOnly("tcp");
    assertThat(log.lines())
        .hasSize(RANKS)
        .allSatisfy(line -> assertFallback(line, "rank 1 on host "));
    assertThat(log.lines())
        .allSatisfy(line -> assertThat(line.text()).contains("test_0:1: install the driver"));
  }

  @Test
  void aWireThatDoesNotOpenMakesAllTakeTcp() {
    assertTcpWhereAWireDoesNotOpen();
  }

  private void assertTcpWhereAWireDoesNotOpen() {
    assertThat(open(Plan.failing(1, "no route to port x"), rank -> true, WireName.AUTO))
        .containsOnly("tcp");
    assertThat(log.lines())
        .hasSize(RANKS)
        .allSatisfy(line -> assertFallback(line, "rank 1 on host "));
    assertThat(log.lines())
        .allSatisfy(line -> assertThat(line.text()).contains("no route to port x"));
  }

  /** The digits of a rank follow no locale: {@code auto} finds the rank in the text of an error. */
  @Test
  void theHostOfARankIsNamedInALocaleWithDigitsOfItsOwn() {
    Locale before = Locale.getDefault();
    Locale.setDefault(Locale.forLanguageTag("ar-EG-u-nu-arab"));
    try {
      assertThat("%d".formatted(1)).isNotEqualTo("1");
      assertTcpWhereAWireDoesNotOpen();
    } finally {
      Locale.setDefault(before);
    }
  }

  /** Rank 0 only notices that nothing comes; the reason is the failure that rank 2 has seen. */
  @Test
  void aPeerThatAProbeDoesNotReachMakesAllTakeTcpAndTheReasonIsTheFailedLane() {
    assertThat(open(Plan.dropping(2, 0), rank -> true, WireName.AUTO)).containsOnly("tcp");
    assertThat(log.lines())
        .hasSize(RANKS)
        .allSatisfy(line -> assertFallback(line, "rank 2 on host "));
    assertThat(log.lines())
        .allSatisfy(line -> assertThat(line.text()).contains("rank 0 on host ", "is not reached"));
  }

  @Test
  void selectedTcpLeavesPortsIdleAndTheLogNamesThem() {
    assertThat(open(Plan.WORKING, rank -> true, WireName.TCP)).containsOnly("tcp");
    assertThat(log.lines())
        .hasSize(RANKS)
        .allSatisfy(
            line -> {
              assertThat(line.level()).isEqualTo(Level.INFO);
              assertThat(line.text())
                  .startsWith(ErrorCode.PORTS_IDLE.id())
                  .contains("wire 'tcp' is selected", PortedWireProvider.PORT);
            });
  }

  private static void assertFallback(Line line, String rank) {
    assertThat(line.level()).isEqualTo(Level.WARNING);
    assertThat(line.text())
        .startsWith(ErrorCode.PORTS_IDLE.id())
        .contains("'auto' takes tcp", PortedWireProvider.PORT, "are idle", rank);
  }

  /** Opens a wire on ranks that are on hosts of their own; returns the kind that each rank got. */
  private static List<String> open(Plan plan, IntPredicate hasPort, String wire) {
    PortedWireProvider.plan = plan;
    WireConfig config = WireConfig.builder().wire(wire).timeout(TIMEOUT).build();
    GroupConfig job =
        GroupConfig.builder()
            .size(RANKS)
            .rendezvous("127.0.0.1", 0)
            .secret("0f1e2d3c4b5a69788796a5b4c3d2e1f0")
            .build();
    try (Rendezvous rendezvous = Rendezvous.open(job)) {
      return ThreadRanks.call(
          RANKS,
          LIMIT,
          me -> {
            PortedWireProvider.HAS_PORT.set(hasPort.test(me.rank()));
            try (Group group = Group.join(rendezvous.configOf(me.rank()));
                Wire opened = Wires.open(group, config, "host " + me.rank())) {
              // A rank that closes early must not end the group while others open.
              group.barrier(TIMEOUT);
              return opened.name();
            }
          });
    }
  }
}
