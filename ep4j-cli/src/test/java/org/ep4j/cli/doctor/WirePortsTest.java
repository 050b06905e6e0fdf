package org.ep4j.cli.doctor;

import static org.assertj.core.api.Assertions.assertThat;

import java.util.List;
import org.ep4j.cli.doctor.Finding.State;
import org.ep4j.group.Group;
import org.ep4j.wire.Wire;
import org.ep4j.wire.WireConfig;
import org.ep4j.wire.WireProvider;
import org.junit.jupiter.api.Test;

class WirePortsTest {
  /** A kind of wire on this host. */
  private record Kind(List<String> ports, String unavailableHere) implements WireProvider {
    @Override
    public String name() {
      return "verbs";
    }

    @Override
    public String unavailableBecause(Group group) {
      return unavailableHere;
    }

    @Override
    public Wire open(Group group, WireConfig config) {
      throw new UnsupportedOperationException("doctor opens no wire");
    }
  }

  @Test
  void portsThatTcpLeavesIdleAreAWarning() {
    List<Finding> findings = WireFacts.ports(new Kind(List.of("mlx5_0:1", "mlx5_1:1"), ""), "tcp");
    assertThat(findings).hasSize(1);
    assertThat(findings.getFirst().state()).isEqualTo(State.WARNING);
    assertThat(findings.getFirst().value()).isEqualTo("mlx5_0:1, mlx5_1:1");
    assertThat(findings.getFirst().meaning()).contains("unset EP4J_WIRE");
  }

  @Test
  void portsWithoutTheirLibraryAreAWarningWithTheReason() {
    List<Finding> findings =
        WireFacts.ports(new Kind(List.of("mlx5_0:1"), "no libibverbs"), "auto");
    assertThat(findings).hasSize(1);
    assertThat(findings.getFirst().state()).isEqualTo(State.WARNING);
    assertThat(findings.getFirst().meaning()).contains("auto takes tcp", "no libibverbs");
  }

  @Test
  void portsThatAutoTriesAreFound() {
    List<Finding> findings = WireFacts.ports(new Kind(List.of("mlx5_0:1"), ""), "auto");
    assertThat(findings).hasSize(1);
    assertThat(findings.getFirst().state()).isEqualTo(State.FOUND);
  }

  @Test
  void otherWiresAndHostsWithoutPortsHaveNothingToReport() {
    assertThat(WireFacts.ports(new Kind(List.of("mlx5_0:1"), ""), "ucx")).isEmpty();
    assertThat(WireFacts.ports(new Kind(List.of(), ""), "tcp")).isEmpty();
  }
}
