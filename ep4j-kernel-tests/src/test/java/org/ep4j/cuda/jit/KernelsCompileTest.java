package org.ep4j.cuda.jit;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.IOException;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.regex.Pattern;
import java.util.stream.Stream;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestFactory;
import org.junit.jupiter.api.io.TempDir;

/**
 * Every kernel of {@link PrebuiltKernels} compiles, and those that move rows spill no register. By
 * default for one architecture, without the kernels of one shape, which differ only in constants,
 * and with few optimizations where these take long: {@link KernelRegistersTest} looks for the
 * spills of these kernels. With {@code -Dep4j.full=true} all kernels, optimized, for every
 * architecture that ep4j supports.
 */
class KernelsCompileTest {
  private static final boolean FULL = Boolean.getBoolean("ep4j.full");
  private static final List<String> ARCHITECTURES =
      FULL ? List.of("sm_80", "sm_90a", "sm_100a") : List.of("sm_90a");
  private static final Pattern SYSTEM_INCLUDE =
      Pattern.compile("^[ \\t]*#[ \\t]*include[ \\t]*<", Pattern.MULTILINE);

  @TempDir private Path directory;

  @TestFactory
  Stream<DynamicTest> everyKernelCompiles() throws IOException, InterruptedException {
    return new KernelCompilations(FULL, directory).tests(kernels(), ARCHITECTURES);
  }

  /**
   * By default one kernel of each protocol. The others differ by a constant: rows by rank instead
   * of by expert, rows times their weights, one shape instead of all, flags instead of packed
   * flags, commands instead of stores.
   */
  static List<PrebuiltKernel> kernels() {
    return PrebuiltKernels.all().stream().filter(kernel -> FULL || usual(kernel)).toList();
  }

  /** Whether every build compiles a kernel. */
  static boolean usual(PrebuiltKernel kernel) {
    Map<String, String> defines = kernel.defines();
    boolean variant =
        defines.containsKey("EP4J_RANKS")
            || kernel.entry().contains("_rank_major")
            || kernel.entry().contains("weighted_")
            || kernel.name().equals("put probe by rings");
    boolean oneNode = kernel.entry().matches("lowlatency/low_latency_(dispatch|combine)\\.cu");
    return !variant && (!oneNode || defines.equals(PrebuiltKernels.LL_PACKETS));
  }

  /** NVRTC on a user's machine has no include directories. */
  @Test
  void noKernelIncludesHeadersOfTheSystem() {
    for (PrebuiltKernel kernel : PrebuiltKernels.all()) {
      Map<String, String> files = kernel.spec("sm_90a").sources().files();
      files.forEach(
          (name, text) ->
              assertThat(SYSTEM_INCLUDE.matcher(text).find())
                  .as(name + " includes a header that is not in the jar")
                  .isFalse());
    }
  }

  @Test
  void everyNameIsUsedOnce() {
    assertThat(PrebuiltKernels.all()).extracting(PrebuiltKernel::name).doesNotHaveDuplicates();
  }
}
