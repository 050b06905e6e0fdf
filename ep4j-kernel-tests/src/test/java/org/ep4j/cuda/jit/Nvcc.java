package org.ep4j.cuda.jit;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;

/** Runs of nvcc with options that only tests need. */
final class Nvcc {
  private static final int LONGEST_SECONDS = 120;

  private Nvcc() {}

  /** Whether this nvcc has an option. */
  static boolean has(String nvcc, String option, Path directory)
      throws IOException, InterruptedException {
    Path help = Files.createTempFile(directory, "help", ".txt");
    assertThat(run(List.of(nvcc, "--help"), help)).isZero();
    return Files.readString(help).contains(option);
  }

  /**
   * Compiles a kernel in a new directory, or fails with the errors of nvcc.
   *
   * @return the file that nvcc has written
   */
  static Path compile(String nvcc, KernelSpec spec, List<String> options, Path directory)
      throws IOException, InterruptedException {
    Path sources = Files.createTempDirectory(directory, "kernel");
    for (var file : spec.sources().files().entrySet()) {
      Path target = sources.resolve(file.getKey());
      Files.createDirectories(target.getParent());
      Files.writeString(target, file.getValue());
    }
    Path out = sources.resolve("out");
    List<String> command = new ArrayList<>(List.of(nvcc, "-cubin"));
    command.addAll(options);
    command.addAll(spec.options());
    command.addAll(List.of("-I", sources.toString(), "-o", out.toString()));
    command.add(sources.resolve(spec.sources().entry()).toString());
    Path log = sources.resolve("log");
    int status = run(command, log);
    assertThat(status).as(Files.readString(log)).isZero();
    return out;
  }

  private static int run(List<String> command, Path log) throws IOException, InterruptedException {
    Process process =
        new ProcessBuilder(command).redirectErrorStream(true).redirectOutput(log.toFile()).start();
    boolean ended;
    try {
      ended = process.waitFor(LONGEST_SECONDS, TimeUnit.SECONDS);
    } finally {
      process.destroyForcibly();
    }
    assertThat(ended).as("nvcc has ended within %d s", LONGEST_SECONDS).isTrue();
    return process.exitValue();
  }
}
