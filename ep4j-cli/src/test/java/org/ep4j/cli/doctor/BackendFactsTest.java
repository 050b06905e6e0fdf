package org.ep4j.cli.doctor;

import static org.assertj.core.api.Assertions.assertThat;

import java.util.List;
import java.util.Map;
import java.util.Properties;
import org.ep4j.config.BackendName;
import org.ep4j.cuda.backend.BackendChoice;
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
    Map<String, BackendProbe> probes =
        Map.of(
            "direct", BackendProbe.found("", "libcuda.so.1", List.of()),
            "nccl", BackendProbe.failed("no libnccl.so.2: install it"));
    assertThat(BackendFacts.chosen(choice(Map.of()), probes))
        .isEqualTo(Finding.found("Backends", "backend", "direct", "default"));
    assertThat(BackendFacts.chosen(choice(Map.of("DEEP_EP_BACKEND", "nccl_gin")), probes))
        .extracting(Finding::state, Finding::value)
        .containsExactly(Finding.State.WARNING, "nccl, not usable");
  }

  @Test
  void aBackendThatCannotBeUsedIsNotCalledInOrder() {
    for (Finding finding : look(Map.of())) {
      if (finding.name().equals("direct") && finding.state() == Finding.State.MISSING) {
        assertThat(look(Map.of()).getFirst().state()).isEqualTo(Finding.State.MISSING);
      }
    }
    assertThat(
            BackendFacts.chosen(
                    choice(Map.of()), Map.of("direct", BackendProbe.failed("no driver")))
                .state())
        .isEqualTo(Finding.State.MISSING);
  }

  private static BackendChoice choice(Map<String, String> environment) {
    return BackendChoice.of(BackendName.AUTO, new Properties(), environment);
  }

  @Test
  void anUnknownNameIsAWarningWithTheKnownOnes() {
    Finding finding = look(Map.of("EP4J_BACKEND", "ncll")).getFirst();
    assertThat(finding.state()).isEqualTo(Finding.State.WARNING);
    assertThat(finding.meaning()).contains("EP4J_BACKEND").contains("direct, nccl, nvshmem");
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
