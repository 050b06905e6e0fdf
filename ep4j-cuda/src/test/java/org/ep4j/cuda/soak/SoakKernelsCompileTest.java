package org.ep4j.cuda.soak;

import static org.assertj.core.api.Assertions.assertThat;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.util.List;
import org.ep4j.cuda.jit.CompilerBackend;
import org.ep4j.cuda.jit.KernelCompiler;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

/** The soak's kernels compile without a GPU, with NVRTC or else nvcc. */
class SoakKernelsCompileTest {
  /** By default one architecture, as {@code KernelsCompileTest}. */
  static List<String> architectures() {
    return Boolean.getBoolean("ep4j.full")
        ? List.of("sm_80", "sm_90a", "sm_100a")
        : List.of("sm_90a");
  }

  @ParameterizedTest
  @MethodSource("architectures")
  void kernelsCompile(String architecture) {
    CompilerBackend backend = KernelCompiler.standard().backend();
    assumeTrue(backend.find().found(), () -> backend.find().problem());
    assertThat(backend.compile(SoakSources.spec(architecture)).cubin())
        .startsWith(0x7f, 'E', 'L', 'F');
  }
}
