package org.ep4j.nvshmem;

import static org.assertj.core.api.Assertions.assertThat;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.List;
import org.ep4j.cuda.backend.BackendProbe;
import org.ep4j.cuda.backend.Backends;
import org.junit.jupiter.api.Test;

class NvshmemProbeTest {
  private static final String LIBRARY = "/opt/lib/libnvshmem_host.so.3";

  @Test
  void theBackendIsFoundByItsName() {
    assertThat(Backends.providers()).extracting(provider -> provider.name()).contains("nvshmem");
  }

  @Test
  void probeReportsWhatItFoundOrTheRemedy() {
    BackendProbe probe = new NvshmemBackendProvider().probe();
    if (probe.usable()) {
      assertThat(probe.version()).startsWith("3.");
      assertThat(probe.library()).contains("libnvshmem_host");
    } else {
      assertThat(probe.problem()).containsAnyOf("EP4J_NVSHMEM_HOME", "CUDA driver");
    }
  }

  @Test
  void librariesOfOtherMajorVersionsAreRefused() {
    assertThat(judge(2, 11, 0))
        .startsWith("/opt/lib/libnvshmem_host.so.3 is NVSHMEM 2.11.0, too old: install NVSHMEM 3");
    assertThat(judge(4, 0, 1)).contains("4.0.1, newer than this ep4j supports");
    assertThat(judge(3, 4, 5)).isEmpty();
    assertThat(judge(3, 9, 0)).isEmpty();
  }

  @Test
  void aLibraryThatLacksFunctionsIsRefusedWithTheirNames() {
    assertThat(NvshmemBackendProvider.judge(LIBRARY, new int[] {3, 4, 5}, List.of("nvshmem_ptr")))
        .startsWith("/opt/lib/libnvshmem_host.so.3 lacks nvshmem_ptr: install NVSHMEM 3");
  }

  private static String judge(int... version) {
    return NvshmemBackendProvider.judge(LIBRARY, version, List.of());
  }

  @Test
  void structuresHaveTheSizesThatTheLibraryAsserts() {
    assertThat(NvshmemLayouts.UNIQUE_ID.byteSize()).isEqualTo(128);
    assertThat(NvshmemLayouts.UNIQUE_ID_ARGS.byteSize()).isEqualTo(24);
    assertThat(NvshmemLayouts.INIT_ARGS.byteSize()).isEqualTo(128);
    assertThat(NvshmemLayouts.INIT_ATTRIBUTES.byteSize()).isEqualTo(144);
    assertThat(NvshmemLayouts.version(NvshmemLayouts.INIT_ATTRIBUTES)).isEqualTo((1 << 16) + 144);
  }

  @Test
  void everyStructureInAttributesCarriesItsVersion() {
    try (Arena arena = Arena.ofConfined()) {
      MemorySegment attributes = arena.allocate(NvshmemLayouts.INIT_ATTRIBUTES);
      NvshmemLayouts.markAttributes(attributes);
      assertThat(attributes.get(ValueLayout.JAVA_INT, 0)).isEqualTo((1 << 16) + 144);
      assertThat(attributes.get(ValueLayout.JAVA_INT, 16)).isEqualTo((1 << 16) + 128);
      assertThat(attributes.get(ValueLayout.JAVA_INT, 24)).isEqualTo((1 << 16) + 24);
      attributes.set(ValueLayout.JAVA_INT, 40, 3);
      attributes.set(ValueLayout.JAVA_INT, 44, 8);
      assertThat(NvshmemLayouts.numbers(attributes)).containsExactly(3, 8);
    }
  }
}
