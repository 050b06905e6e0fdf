package org.ep4j.engine.host.kernel;

import static org.assertj.core.api.Assertions.assertThat;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.util.List;
import java.util.stream.IntStream;
import jdk.incubator.vector.VectorShape;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.parallel.Execution;
import org.junit.jupiter.api.parallel.ExecutionMode;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

/**
 * C2 keeps vectors in registers only if it can compile the whole method; otherwise it silently
 * allocates each one, and the kernel is ten times slower. So no kernel may allocate once it is
 * compiled. Each width runs in a separate JVM, as in production.
 */
@Execution(ExecutionMode.CONCURRENT) // waits for child processes
class KernelAllocationTest {
  private static final boolean FULL = Boolean.getBoolean("ep4j.full");

  static IntStream widths() {
    return IntStream.of(128, 256, 512);
  }

  @Test
  void warmKernelsWithoutVectorsAllocateNothing() throws Exception {
    assertNothingIsAllocated(0, List.of());
  }

  @ParameterizedTest
  @MethodSource("widths")
  void warmKernelsAllocateNothing(int bits) throws Exception {
    onlyInFull();
    assertNothingIsAllocated(bits, List.of());
  }

  @ParameterizedTest
  @MethodSource("widths")
  void theyAllocateNothingIfTheApplicationUsesVectorsOfAnotherWidth(int bits) throws Exception {
    onlyInFull();
    assertNothingIsAllocated(bits, List.of("with-others"));
  }

  private static void onlyInFull() {
    assumeTrue(
        FULL, "engines with vector loops are counted in every build; -Dep4j.full=true runs it");
  }

  private static void assertNothingIsAllocated(int bits, List<String> arguments) throws Exception {
    assumeTrue(
        bits <= VectorShape.preferredShape().vectorBitSize(),
        "wider than this machine's vectors: every operation is a call");
    assertThat(
            AllocatingCalls.inEachJvm(
                KernelAllocations.class,
                List.of("-D" + KernelChoice.PROPERTY + "=" + bits),
                arguments,
                KernelAllocations.CALLS))
        .isEmpty();
  }
}
