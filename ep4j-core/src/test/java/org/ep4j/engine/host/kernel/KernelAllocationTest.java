package org.ep4j.engine.host.kernel;

import static org.assertj.core.api.Assertions.assertThat;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.util.List;
import java.util.Set;
import java.util.TreeSet;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
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
 * compiled. Each width runs in a separate JVM, as in production: C2 decides by profiles, and all
 * users of the Vector API share its profiles.
 */
@Execution(ExecutionMode.CONCURRENT) // waits for child processes
class KernelAllocationTest {
  private static final boolean FULL = Boolean.getBoolean("ep4j.full");
  private static final int MAX_JVMS = 3;
  private static final Pattern COUNT = Pattern.compile("allocated (\\d+) bytes by \\d+ times (.*)");

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
    Set<String> allocating = run(bits, arguments);
    // The inlining of C2 also depends on the time of compilation: in rare JVMs a kernel allocates
    // that does not in others. A kernel too large for C2 allocates in all of them.
    for (int jvm = 2; jvm <= MAX_JVMS && !allocating.isEmpty(); jvm++) {
      System.out.println("allocating in JVM " + (jvm - 1) + ": " + allocating);
      allocating.retainAll(run(bits, arguments));
    }
    assertThat(allocating).isEmpty();
  }

  /** The kernels that allocate in a new JVM. */
  private static Set<String> run(int bits, List<String> arguments) throws Exception {
    List<String> lines =
        ForkedJvm.run(
            KernelAllocations.class,
            List.of(
                "--add-modules=jdk.incubator.vector",
                "--enable-native-access=ALL-UNNAMED",
                "-D" + KernelChoice.PROPERTY + "=" + bits),
            arguments);
    Set<String> allocating = new TreeSet<>();
    int kernels = 0;
    for (String line : lines) {
      Matcher count = COUNT.matcher(line);
      if (count.matches()) {
        kernels++;
        if (!count.group(1).equals("0")) {
          allocating.add(count.group(2));
        }
      }
    }
    assertThat(kernels).as("%s", lines).isEqualTo(KernelAllocations.CALLS);
    return allocating;
  }
}
