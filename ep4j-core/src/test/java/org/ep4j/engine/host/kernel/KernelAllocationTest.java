package org.ep4j.engine.host.kernel;

import static org.assertj.core.api.Assertions.assertThat;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.util.List;
import jdk.incubator.vector.VectorShape;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/**
 * C2 keeps vectors in registers only if it understands a whole method; else it allocates each one,
 * says nothing, and the kernel is ten times slower. So no kernel may allocate once it is compiled.
 * Each width has a JVM of its own, as in life: C2 decides by profiles, and those of the Vector API
 * are shared by all who use it.
 */
class KernelAllocationTest {
  @ParameterizedTest
  @ValueSource(ints = {0, 128, 256, 512})
  void warmKernelsAllocateNothing(int bits) throws Exception {
    assertNothingIsAllocated(bits, List.of());
  }

  @ParameterizedTest
  @ValueSource(ints = {128, 256, 512})
  void theyAllocateNothingIfTheApplicationUsesVectorsOfAnotherWidth(int bits) throws Exception {
    assertNothingIsAllocated(bits, List.of("with-others"));
  }

  private static void assertNothingIsAllocated(int bits, List<String> arguments) throws Exception {
    assumeTrue(
        bits <= VectorShape.preferredShape().vectorBitSize(),
        "wider than this machine's vectors: every operation is a call");
    List<String> lines =
        ForkedJvm.run(
            KernelAllocations.class,
            List.of(
                "--add-modules=jdk.incubator.vector",
                "--enable-native-access=ALL-UNNAMED",
                "-D" + KernelChoice.PROPERTY + "=" + bits),
            arguments);
    List<String> counts = lines.stream().filter(line -> line.startsWith("allocated ")).toList();
    assertThat(counts).as("%s", lines).hasSize(KernelAllocations.CALLS);
    assertThat(counts).allSatisfy(line -> assertThat(line).startsWith("allocated 0 bytes by "));
  }
}
