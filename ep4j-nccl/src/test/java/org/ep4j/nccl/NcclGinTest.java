package org.ep4j.nccl;

import static org.assertj.core.api.Assertions.assertThat;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.io.IOException;
import java.io.InputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Objects;
import java.util.concurrent.TimeUnit;
import org.ep4j.conformance.ProcessWorld;
import org.ep4j.conformance.RankJob;
import org.ep4j.conformance.ThreadWorld;
import org.ep4j.cuda.driver.NativeEnvironment;
import org.ep4j.group.Group;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/**
 * Puts of kernels by NCCL's GIN where there is no network adapter: NCCL's device functions, queues
 * and proxy threads are its own, and what they drive is an adapter in software, see {@code
 * software_nic.cpp}.
 */
class NcclGinTest {
  private static final String SOURCE = "software_nic.cpp";
  private static final int COMPILE_SECONDS = 120;

  /** The version whose plugin interface the adapter has. */
  private static final int VERSION = 23007;

  @TempDir private Path directory;
  private Path adapter;

  @BeforeEach
  void compileTheAdapter() throws IOException, InterruptedException {
    Path source = directory.resolve(SOURCE);
    try (InputStream in = Objects.requireNonNull(getClass().getResourceAsStream(SOURCE))) {
      Files.copy(in, source);
    }
    adapter = directory.resolve("libsoftware_nic.so");
    compile(
        List.of(
            "g++",
            "-std=c++17",
            "-O1",
            "-Wall",
            "-Wextra",
            "-Werror",
            "-shared",
            "-fPIC",
            "-o",
            adapter.toString(),
            source.toString(),
            "-ldl"));
  }

  private void compile(List<String> command) throws IOException, InterruptedException {
    Path output = directory.resolve("output.txt");
    Process process;
    try {
      process =
          new ProcessBuilder(command)
              .redirectErrorStream(true)
              .redirectOutput(output.toFile())
              .start();
    } catch (IOException e) {
      assumeTrue(false, "no g++ to compile a network adapter with");
      throw e;
    }
    assertThat(process.waitFor(COMPILE_SECONDS, TimeUnit.SECONDS)).isTrue();
    assertThat(process.exitValue()).as(Files.readString(output)).isZero();
  }

  @Test
  void kernelsPutByGin() {
    Gpus.require(2);
    assumeTrue(
        NcclLibrary.version() == VERSION,
        () ->
            "the adapter is for NCCL "
                + NcclBackendProvider.text(VERSION)
                + ", here is "
                + NcclBackendProvider.text(NcclLibrary.version()));
    new ProcessWorld().run(1, OneProcess.class, List.of(adapter.toString()));
  }

  /** A process whose NCCL finds the adapter; its ranks are threads. Argument: the adapter. */
  public static final class OneProcess implements RankJob {
    /** Used by reflection. */
    public OneProcess() {}

    @Override
    public void run(Group group, List<String> arguments) {
      NativeEnvironment.setDefault("NCCL_RMA_PLUGIN", arguments.getFirst());
      new ThreadWorld().run(2, NcclPutTest.Exchange.class, List.of("1", "GIN of NCCL"));
    }
  }
}
