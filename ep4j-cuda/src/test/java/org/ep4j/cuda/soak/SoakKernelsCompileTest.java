package org.ep4j.cuda.soak;

import static org.assertj.core.api.Assertions.assertThat;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import org.ep4j.cuda.jit.CompilerBackend;
import org.ep4j.cuda.jit.KernelCompiler;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** The soak's kernels compile without a GPU, with NVRTC or else nvcc. */
class SoakKernelsCompileTest {
  @ParameterizedTest
  @ValueSource(strings = {"sm_80", "sm_90a", "sm_100a"})
  void kernelsCompile(String architecture) {
    CompilerBackend backend = KernelCompiler.standard().backend();
    assumeTrue(backend.find().found(), () -> backend.find().problem());
    assertThat(backend.compile(SoakSources.spec(architecture)).cubin())
        .startsWith(0x7f, 'E', 'L', 'F');
  }
}
