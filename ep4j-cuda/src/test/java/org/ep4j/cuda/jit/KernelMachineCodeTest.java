package org.ep4j.cuda.jit;

import static org.assertj.core.api.Assertions.assertThat;
import static org.junit.jupiter.api.Assumptions.assumeFalse;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
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

  /** Of the disassembler, which takes about a second. */
  private static final long LONGEST_SECONDS = 60;

  @TempDir private Path directory;

  @TestFactory
  Stream<DynamicTest> everyGuardTestsItsOwnPredicate() {
    String disassembler = NvccBackend.search("EP4J_NVDISASM", "nvdisasm");
    assumeFalse(
        disassembler.isEmpty(),
        "no nvdisasm in EP4J_NVDISASM, on the PATH or in /usr/local/cuda/bin: install it");
    KernelCompiler compiler = KernelCompiler.standard();
    // The tests run one after the other; what takes long uses all cores before.
    Map<PrebuiltKernel, List<String>> lost = new ConcurrentHashMap<>();
    PrebuiltKernels.all().parallelStream()
        .forEach(
            kernel -> {
              byte[] image = compiler.compile(kernel.spec(ARCHITECTURE)).image();
              List<MachineCode> functions = MachineCode.parse(listing(disassembler, image));
              assertThat(functions).as(kernel.name()).isNotEmpty();
              lost.put(
                  kernel,
                  functions.stream()
                      .flatMap(function -> LostPredicates.in(function).stream())
                      .toList());
            });
    return PrebuiltKernels.all().stream()
        .map(
            kernel ->
                DynamicTest.dynamicTest(
                    kernel.name(), () -> assertThat(lost.get(kernel)).isEmpty()));
  }

  private List<String> listing(String disassembler, byte[] image) {
    try {
      Path cubin = Files.createTempFile(directory, "kernel", ".cubin");
      Files.write(cubin, image);
      Path listing = Path.of(cubin + ".sass");
      Process process =
          new ProcessBuilder(disassembler, "-c", cubin.toString())
              .redirectOutput(listing.toFile())
              .redirectError(ProcessBuilder.Redirect.DISCARD)
              .start();
      if (!process.waitFor(LONGEST_SECONDS, TimeUnit.SECONDS)) {
        process.destroyForcibly();
        throw new AssertionError(disassembler + " has not ended after " + LONGEST_SECONDS + " s");
      }
      assertThat(process.exitValue()).as("status of %s -c %s", disassembler, cubin).isZero();
      return Files.readAllLines(listing);
    } catch (IOException | InterruptedException e) {
      throw new AssertionError(e);
    }
  }
}
