package org.ep4j.nccl;

import static org.assertj.core.api.Assertions.assertThat;

import java.util.List;
import java.util.Map;
import org.ep4j.cuda.backend.BackendProbe;
import org.ep4j.cuda.backend.Backends;
import org.junit.jupiter.api.Test;

class NcclProbeTest {
  private static final String LIBRARY = "/opt/lib/libnccl.so.2";

  @Test
  void theBackendIsFoundByItsName() {
    assertThat(Backends.providers()).extracting(provider -> provider.name()).contains("nccl");
  }

  @Test
  void probeReportsWhatItFoundOrTheRemedy() {
    BackendProbe probe = new NcclBackendProvider().probe();
    if (probe.usable()) {
      assertThat(probe.version()).startsWith("2.");
      assertThat(probe.library()).contains("libnccl");
    } else {
      assertThat(probe.problem()).containsAnyOf("EP4J_NCCL_HOME", "CUDA driver");
    }
  }

  @Test
  void putPathIsReported() {
    assertThat(new NcclBackendProvider().puts())
        .startsWith("stores over NVLink; between nodes ")
        .containsAnyOf("GIN if NCCL has ports", "GIN needs NCCL 2.28.7");
  }

  @Test
  void anOldLibraryIsRefusedWithItsVersionAndTheRemedy() {
    assertThat(NcclBackendProvider.judge(LIBRARY, 22707, List.of("ncclMemAlloc")))
        .isEqualTo(
            "/opt/lib/libnccl.so.2 is NCCL 2.27.7, too old for symmetric windows (2.28.3 or newer):"
                + " install NCCL 2.28.9 or newer, or set its directory in EP4J_NCCL_HOME");
  }

  @Test
  void aLibraryThatLacksFunctionsIsRefusedWithTheirNames() {
    assertThat(NcclBackendProvider.judge(LIBRARY, 22809, List.of("ncclMemAlloc", "ncclMemFree")))
        .startsWith("/opt/lib/libnccl.so.2 lacks ncclMemAlloc, ncclMemFree: install NCCL");
    assertThat(NcclBackendProvider.judge(LIBRARY, 0, List.of("ncclGetVersion")))
        .contains("lacks ncclGetVersion");
  }

  @Test
  void laterVersionsAreAccepted() {
    for (int version : new int[] {22803, 22809, 22902, 23007, 23100}) {
      assertThat(NcclBackendProvider.judge(LIBRARY, version, List.of())).isEmpty();
    }
  }

  @Test
  void versionsAreFormattedWithDots() {
    assertThat(NcclBackendProvider.text(22809)).isEqualTo("2.28.9");
    assertThat(NcclBackendProvider.text(23007)).isEqualTo("2.30.7");
    assertThat(NcclBackendProvider.text(2804)).isEqualTo("2.8.4");
  }

  @Test
  void ranksShareAGpuOnlyIfTheLibraryAllowsIt() {
    Map<String, String> told = Map.of("NCCL_MULTI_RANK_GPU_ENABLE", "1");
    assertThat(SharedGpus.allowed(23007, told)).isTrue();
    assertThat(SharedGpus.allowed(22907, told)).isFalse();
    assertThat(SharedGpus.allowed(23007, Map.of())).isFalse();
    assertThat(SharedGpus.allowed(23007, Map.of("NCCL_MULTI_RANK_GPU_ENABLE", "0"))).isFalse();
  }

  @Test
  void lateConnectionIsAdvisedAgainstUnlessSwitchedOff() {
    assertThat(NcclBackendProvider.advice(Map.of()))
        .singleElement()
        .asString()
        .contains("NCCL_RUNTIME_CONNECT=0")
        .contains("NCCL_IB_QPS_PER_CONNECTION=4");
    assertThat(NcclBackendProvider.advice(Map.of("NCCL_RUNTIME_CONNECT", "0"))).isEmpty();
  }

  @Test
  void settingsThatDisableWindowsAreReported() {
    assertThat(
            NcclBackendProvider.advice(Map.of("NCCL_RUNTIME_CONNECT", "0", "NCCL_WIN_ENABLE", "0")))
        .singleElement()
        .asString()
        .startsWith("NCCL_WIN_ENABLE=0");
  }
}
