package org.ep4j.cuda.jit;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import org.ep4j.error.ErrorCode;
import org.ep4j.error.InvalidArgumentException;
import org.junit.jupiter.api.Test;

class KernelSpecTest {
  private static final String ARCH = "sm_90a";

  @Test
  void sourcesContainTheirIncludes() {
    KernelSources sources = KernelSources.of("probe/smoke.cu");
    assertThat(sources.files()).containsOnlyKeys("probe/smoke.cu", "probe/smoke.cuh");
    assertThat(sources.headers()).containsOnlyKeys("probe/smoke.cuh");
    assertThat(sources.text()).contains("#include \"probe/smoke.cuh\"");
  }

  @Test
  void missingSourceIsReported() {
    assertThatThrownBy(() -> KernelSources.of("absent.cu"))
        .isInstanceOf(IllegalArgumentException.class)
        .hasMessageStartingWith(ErrorCode.KERNEL_SPEC.id())
        .hasMessageContaining("absent.cu");
  }

  @Test
  void optionsNameArchitectureAndMacrosInOrder() {
    KernelSpec spec = KernelSpec.of("probe/smoke.cu", Map.of("B", "2", "A", "x<1>"), ARCH);
    assertThat(spec.options()).containsExactly("--std=c++17", "-arch=sm_90a", "-DA=x<1>", "-DB=2");
    assertThat(spec.description()).isEqualTo("probe/smoke.cu sm_90a {A=x<1>, B=2}");
  }

  @Test
  void anythingThatChangesTheCubinChangesTheKey() {
    KernelSpec spec = spec("a.cu", Map.of("a.cu", "x", "b.cuh", "y"), Map.of("N", "1"), ARCH);
    Set<String> keys = new HashSet<>();
    keys.add(spec.key("nvrtc13.0"));
    keys.add(spec.key("nvrtc13.1"));
    List<KernelSpec> others =
        List.of(
            spec("b.cuh", Map.of("a.cu", "x", "b.cuh", "y"), Map.of("N", "1"), ARCH),
            spec("a.cu", Map.of("a.cu", "x", "b.cuh", "z"), Map.of("N", "1"), ARCH),
            spec("a.cu", Map.of("a.cu", "xb.cuhy", "b.cuh", ""), Map.of("N", "1"), ARCH),
            spec("a.cu", Map.of("a.cu", "x"), Map.of("N", "1"), ARCH),
            spec("a.cu", Map.of("a.cu", "x", "b.cuh", "y"), Map.of("N", "2"), ARCH),
            spec("a.cu", Map.of("a.cu", "x", "b.cuh", "y"), Map.of("M", "1"), ARCH),
            spec("a.cu", Map.of("a.cu", "x", "b.cuh", "y"), Map.of(), ARCH),
            spec("a.cu", Map.of("a.cu", "x", "b.cuh", "y"), Map.of("N", "1"), "sm_90"));
    others.forEach(other -> keys.add(other.key("nvrtc13.0")));
    assertThat(keys).hasSize(2 + others.size());
    assertThat(spec("a.cu", Map.of("b.cuh", "y", "a.cu", "x"), Map.of("N", "1"), ARCH).key("c"))
        .isEqualTo(spec.key("c"))
        .startsWith(spec.fingerprint());
  }

  @Test
  void badArchitecturesAndMacrosAreRefused() {
    assertThatThrownBy(() -> KernelSpec.of("probe/smoke.cu", Map.of(), "90a"))
        .isInstanceOf(InvalidArgumentException.class)
        .hasMessageStartingWith(ErrorCode.KERNEL_SPEC.id());
    assertThatThrownBy(() -> KernelSpec.of("probe/smoke.cu", Map.of("A B", "1"), ARCH))
        .isInstanceOf(InvalidArgumentException.class)
        .hasMessageContaining("A B");
  }

  @Test
  void theReportOfTheAssemblerIsParsed() {
    String log =
        """
        ptxas info    : 0 bytes gmem
        ptxas info    : Compiling entry function 'one' for 'sm_90a'
        ptxas info    : Function properties for one
            0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
        ptxas info    : Used 8 registers, used 0 barriers
        ptxas info    : Compiling entry function 'two' for 'sm_90a'
        ptxas info    : Function properties for two
            48 bytes stack frame, 16 bytes spill stores, 20 bytes spill loads
        ptxas info    : Used 255 registers, used 1 barriers, 48 bytes cumulative stack size, 1024 bytes smem
        """;
    List<KernelResources> found = KernelResources.parse(log);
    assertThat(found)
        .containsExactly(
            new KernelResources("one", 8, 0, 0, 0, 0),
            new KernelResources("two", 255, 48, 16, 20, 1024));
    assertThat(found.get(0).spills()).isFalse();
    assertThat(found.get(1).spills()).isTrue();
    assertThat(KernelResources.parse("")).isEmpty();
  }

  private static KernelSpec spec(
      String entry, Map<String, String> files, Map<String, String> defines, String architecture) {
    return new KernelSpec(
        new KernelSources(entry, new TreeMap<>(files)), new TreeMap<>(defines), architecture);
  }
}
