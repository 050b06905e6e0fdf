package org.ep4j.engine.host.kernel;

import static org.assertj.core.api.Assertions.assertThat;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.nio.file.Path;
import java.util.List;
import java.util.Set;
import java.util.stream.Collectors;
import jdk.incubator.vector.VectorShape;
import org.junit.jupiter.api.condition.EnabledIfSystemProperty;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.api.parallel.Execution;
import org.junit.jupiter.api.parallel.ExecutionMode;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/**
 * C2 stops inlining in a method for which it has created 18 000 nodes, and each operation of the
 * Vector API costs hundreds. From then on only annotated methods of the JDK are inlined, and not
 * the accessors that they call. If the limit is met within an operation, the operation allocates,
 * for as long as the JVM lives; a few nodes more, by another profile, move it. So each kernel has
 * to stay far below the limit. {@link KernelAllocationTest} sees only the profiles of its own JVM.
 */
@Execution(ExecutionMode.CONCURRENT) // waits for child processes
@EnabledIfSystemProperty(named = "ep4j.full", matches = "true")
class KernelCompilationTest {
  /** Nodes of a method; C2 has 18 000 ({@code NodeCountInliningCutoff}). */
  private static final int MAX_NODES = 14_500;

  /** Nodes of a method that a caller may inline, beside others. */
  private static final int MAX_NODES_INLINED = 9_000;

  /** C2 inlines no longer method ({@code FreqInlineSize}, in bytes of bytecode). */
  private static final int MAX_BYTES_INLINED = 325;

  @ParameterizedTest
  @CsvSource({"128,", "256,", "512,", "128, with-others", "256, with-others", "512, with-others"})
  void eachKernelStaysWellBelowTheLimitOfNodes(int bits, String argument, @TempDir Path folder)
      throws Exception {
    assumeTrue(
        bits <= VectorShape.preferredShape().vectorBitSize(),
        "wider than this machine's vectors: every operation is a call");
    Path log = folder.resolve("compilations.xml");
    String kernels = KernelAllocations.class.getPackageName() + ".Vector*::*";
    List<String> lines =
        ForkedJvm.run(
            KernelAllocations.class,
            List.of(
                "--add-modules=jdk.incubator.vector",
                "--enable-native-access=ALL-UNNAMED",
                "-D" + KernelChoice.PROPERTY + "=" + bits,
                "-XX:+UnlockDiagnosticVMOptions",
                "-XX:+LogCompilation",
                "-XX:LogFile=" + log,
                "-XX:CompileCommand=log," + kernels),
            argument == null ? List.of() : List.of(argument));
    List<Compilation> compilations = Compilation.read(log, "kernel.Vector");

    Set<String> seen = compilations.stream().map(Compilation::holder).collect(Collectors.toSet());
    assertThat(seen)
        .as("%s", lines)
        .contains(
            "VectorBf16Sums",
            "VectorBf16WeightedSums",
            "VectorFp16Sums",
            "VectorFp32Sums",
            "VectorFp8",
            "VectorLogFmt",
            "VectorNvFp4");
    assertThat(compilations).filteredOn(Compilation::metTheLimit).isEmpty();
    assertThat(compilations).filteredOn(c -> c.nodes() > MAX_NODES).isEmpty();
    assertThat(compilations)
        .as("a caller that inlines several kernels meets the limit in one of them")
        .filteredOn(c -> !c.holder().equals("VectorKernels")) // such callers: the rule before holds
        .filteredOn(c -> c.nodes() > MAX_NODES_INLINED && c.bytes() <= MAX_BYTES_INLINED)
        .isEmpty();
  }
}
