package org.ep4j.cli.doctor;

import static org.assertj.core.api.Assertions.assertThat;

import java.util.List;
import java.util.Map;
import java.util.Properties;
import org.ep4j.cuda.backend.BackendProbe;
import org.junit.jupiter.api.Test;

class BackendFactsTest {
  @Test
  void allBackendsOfTheModulePathAreReported() {
    assertThat(look(Map.of()))
        .extracting(Finding::name)
        .contains("backend", "direct", "nccl", "nvshmem");
  }

  @Test
  void theChoiceIsReportedWithItsSource() {
    assertThat(look(Map.of()).getFirst())
        .isEqualTo(Finding.found("Backends", "backend", "direct", "default"));
    assertThat(look(Map.of("DEEP_EP_BACKEND", "nccl_gin")).getFirst())
        .isEqualTo(Finding.found("Backends", "backend", "nccl", "DEEP_EP_BACKEND"));
  }

  @Test
  void anUnknownNameIsAWarningWithTheKnownOnes() {
    Finding finding = look(Map.of("EP4J_BACKEND", "ncll")).getFirst();
    assertThat(finding.state()).isEqualTo(Finding.State.WARNING);
    assertThat(finding.meaning()).contains("EP4J_BACKEND").contains("[direct, nccl, nvshmem]");
  }

  @Test
  void aProbeIsReportedWithItsAdvice() {
    BackendProbe probe = BackendProbe.found("2.28.9", "libnccl.so.2", List.of("set X=0"));
    assertThat(BackendFacts.probe("nccl", probe))
        .containsExactly(
            Finding.found("Backends", "nccl", "2.28.9", "libnccl.so.2"),
            Finding.warning("Backends", "nccl", "2.28.9", "set X=0"));
    assertThat(BackendFacts.probe("nccl", BackendProbe.failed("no libnccl.so.2: install it")))
        .containsExactly(
            Finding.missing(
                "Backends", "nccl", "cannot be used here", "no libnccl.so.2: install it"));
  }

  private static List<Finding> look(Map<String, String> environment) {
    return BackendFacts.look(new Properties(), environment);
  }
}
