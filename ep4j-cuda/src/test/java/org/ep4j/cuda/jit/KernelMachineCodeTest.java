package org.ep4j.cuda.jit;

import static org.assertj.core.api.Assertions.assertThat;
import static org.junit.jupiter.api.Assumptions.assumeFalse;

import java.io.File;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.List;
import java.util.stream.Stream;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.TestFactory;
import org.junit.jupiter.api.io.TempDir;

/**
 * The machine code for sm_90a of {@link PrebuiltKernels}, as this machine uses it: of a bundle, of
 * the cache, or compiled now. Needs {@code nvdisasm} of the CUDA toolkit, in {@code EP4J_NVDISASM},
 * on the PATH or in {@code /usr/local/cuda/bin}, but no GPU.
 */
class KernelMachineCodeTest {
  private static final String ARCHITECTURE = "sm_90a";

  @TempDir private Path directory;

  @TestFactory
  Stream<DynamicTest> everyGuardTestsItsOwnPredicate() {
    String disassembler = disassembler();
    assumeFalse(
        disassembler.isEmpty(),
        "no nvdisasm on the PATH or in /usr/local/cuda/bin: install it, or set EP4J_NVDISASM");
    KernelCompiler compiler = KernelCompiler.standard();
    List<PrebuiltKernel> kernels = PrebuiltKernels.all();
    kernels.parallelStream().forEach(kernel -> compiler.compile(kernel.spec(ARCHITECTURE)));
    return kernels.stream()
        .map(
            kernel ->
                DynamicTest.dynamicTest(
                    kernel.name(),
                    () -> {
                      byte[] image = compiler.compile(kernel.spec(ARCHITECTURE)).image();
                      List<MachineCode> functions = MachineCode.parse(listing(disassembler, image));
                      assertThat(functions).isNotEmpty();
                      assertThat(functions).flatMap(LostPredicates::in).isEmpty();
                    }));
  }

  private List<String> listing(String disassembler, byte[] image)
      throws IOException, InterruptedException {
    Path cubin = Files.write(directory.resolve("kernel.cubin"), image);
    Path listing = directory.resolve("kernel.sass");
    Process process =
        new ProcessBuilder(disassembler, "-c", cubin.toString())
            .redirectOutput(listing.toFile())
            .redirectError(ProcessBuilder.Redirect.DISCARD)
            .start();
    assertThat(process.waitFor()).as(disassembler).isZero();
    return Files.readAllLines(listing);
  }

  private static String disassembler() {
    String named = System.getenv().getOrDefault("EP4J_NVDISASM", "");
    if (!named.isEmpty()) {
      return named;
    }
    String path = System.getenv().getOrDefault("PATH", "");
    return Stream.concat(
            Arrays.stream(path.split(File.pathSeparator)), Stream.of("/usr/local/cuda/bin"))
        .map(each -> Path.of(each, "nvdisasm"))
        .filter(Files::isExecutable)
        .map(Path::toString)
        .findFirst()
        .orElse("");
  }
}
