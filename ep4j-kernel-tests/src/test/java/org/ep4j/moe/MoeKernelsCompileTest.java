package org.ep4j.moe;

import static org.assertj.core.api.Assertions.assertThat;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.util.List;
import org.ep4j.cuda.jit.KernelCompiler;
import org.ep4j.moe.gpu.MoeSources;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

/** The kernels of a layer compile without a GPU, with NVRTC or else nvcc, or did before. */
class MoeKernelsCompileTest {
  /** By default one architecture, as {@code KernelsCompileTest}. */
  static List<String> architectures() {
    return Boolean.getBoolean("ep4j.full")
        ? List.of("sm_80", "sm_90a", "sm_100a")
        : List.of("sm_90a");
  }

  @ParameterizedTest
  @MethodSource("architectures")
  void kernelsCompile(String architecture) {
    KernelCompiler compiler = KernelCompiler.standard();
    assumeTrue(compiler.backend().find().found(), () -> compiler.backend().find().problem());
    assertThat(compiler.compile(MoeSources.spec(architecture)).image())
        .startsWith(0x7f, 'E', 'L', 'F');
  }
}
