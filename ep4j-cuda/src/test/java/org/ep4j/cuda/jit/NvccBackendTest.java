package org.ep4j.cuda.jit;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.catchThrowableOfType;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicReference;
import org.ep4j.error.EngineUnavailableException;
import org.ep4j.error.ErrorCode;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

class NvccBackendTest {
  private static final KernelSpec SPEC = KernelSpec.of("probe/smoke.cu", Map.of(), "sm_90a");

  @TempDir private Path directory;

  /** The program starts a pass that takes long, as nvcc does, and waits for it. */
  @Test
  @Timeout(60)
  void aProgramThatIsGivenUpLeavesNoPassRunning() throws IOException, InterruptedException {
    Path pass = directory.resolve("pass");
    Path program =
        Files.createFile(
            directory.resolve("nvcc"),
            PosixFilePermissions.asFileAttribute(PosixFilePermissions.fromString("rwx------")));
    Files.writeString(program, "#!/bin/sh\nsleep 100 &\necho $! >" + pass + "\nwait\n");
    NvccBackend backend = new NvccBackend(program.toString(), NvccBackend.Output.CUBIN, List.of());
    AtomicReference<@Nullable EngineUnavailableException> error = new AtomicReference<>();
    Thread compiling =
        Thread.ofPlatform()
            .start(
                () ->
                    error.set(
                        catchThrowableOfType(
                            EngineUnavailableException.class, () -> backend.compile(SPEC))));
    while (!Files.exists(pass) || !Files.readString(pass).endsWith("\n")) {
      Thread.sleep(1);
    }
    compiling.interrupt();
    compiling.join();
    assertThat(error.get()).hasMessageStartingWith(ErrorCode.KERNEL_COMPILATION_FAILED.id());
    long pid = Long.parseLong(Files.readString(pass).strip());
    long start = System.nanoTime();
    while (runs(pid) && System.nanoTime() - start < TimeUnit.SECONDS.toNanos(10)) {
      Thread.sleep(1);
    }
    assertThat(runs(pid)).isFalse();
  }

  /** A process that has ended may wait for its parent. */
  private static boolean runs(long pid) throws IOException {
    try {
      String stat = Files.readString(Path.of("/proc/" + pid + "/stat"));
      return stat.charAt(stat.lastIndexOf(')') + 2) != 'Z';
    } catch (NoSuchFileException e) {
      return false;
    }
  }
}
