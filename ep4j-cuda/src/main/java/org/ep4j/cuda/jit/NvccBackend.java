package org.ep4j.cuda.jit;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.concurrent.TimeUnit;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Stream;
import org.ep4j.cuda.driver.calls.LibrarySearch;
import org.ep4j.error.EngineUnavailableException;
import org.ep4j.error.ErrorCode;
import org.jspecify.annotations.Nullable;

/**
 * Compiles with nvcc, on machines without NVRTC and for sources that include library headers. Each
 * compilation is a process.
 */
public final class NvccBackend implements CompilerBackend {
  /**
   * Environment variable with the program, if it is neither on the PATH nor in /usr/local/cuda/bin.
   */
  public static final String PROGRAM_VARIABLE = "EP4J_NVCC";

  private static final Pattern VERSION = Pattern.compile("release ([0-9]+\\.[0-9]+)");
  private static final long LONGEST_SECONDS = 300;

  /** Output: a binary, or intermediate code for a later link. */
  enum Output {
    CUBIN(".cubin"),
    LTO_IR(".fatbin");

    private final String ending;

    Output(String ending) {
      this.ending = ending;
    }
  }

  private final String program;
  private final Output output;

  /** Directories of library headers. */
  private final List<Path> headers;

  /** Null until requested: a process per start would cost more than a kernel from the cache. */
  private volatile @Nullable String identity;

  NvccBackend() {
    this(Output.CUBIN, List.of());
  }

  NvccBackend(Output output, List<Path> headers) {
    this(search(PROGRAM_VARIABLE, "nvcc"), output, headers);
  }

  NvccBackend(String program, Output output, List<Path> headers) {
    this.program = program;
    this.output = output;
    this.headers = List.copyOf(headers);
  }

  @Override
  public LibrarySearch find() {
    return program.isEmpty()
        ? new LibrarySearch(
            "",
            "no nvcc in "
                + PROGRAM_VARIABLE
                + ", on the PATH or in /usr/local/cuda/bin: install the CUDA toolkit")
        : new LibrarySearch(program, "");
  }

  @Override
  public String identity() {
    String known = identity;
    if (known == null) {
      Matcher version = VERSION.matcher(execute(List.of(program, "--version")));
      known = version.find() ? "nvcc" + version.group(1) : "nvcc";
      identity = known;
    }
    return known;
  }

  @Override
  public Compiled compile(KernelSpec spec) {
    try {
      Path directory = Files.createTempDirectory("ep4j-nvcc");
      try {
        return compile(spec, directory);
      } finally {
        delete(directory);
      }
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  private Compiled compile(KernelSpec spec, Path directory) throws IOException {
    for (Map.Entry<String, String> file : spec.sources().files().entrySet()) {
      Path target = directory.resolve(file.getKey());
      Files.createDirectories(Objects.requireNonNull(target.getParent()));
      Files.writeString(target, file.getValue());
    }
    Path image = directory.resolve("out" + output.ending);
    List<String> command = new ArrayList<>(List.of(program));
    command.addAll(options(spec));
    command.addAll(List.of("-I", directory.toString(), "-o", image.toString()));
    headers.forEach(place -> command.addAll(List.of("-I", place.toString())));
    command.add(directory.resolve(spec.sources().entry()).toString());
    String log = execute(command);
    return new Compiled(Files.readAllBytes(image), log);
  }

  private List<String> options(KernelSpec spec) {
    if (output == Output.CUBIN) {
      List<String> options = new ArrayList<>(List.of("-cubin", "-Xptxas", "-v"));
      options.addAll(spec.options());
      return options;
    }
    String number = spec.architecture().substring("sm_".length());
    List<String> options =
        new ArrayList<>(
            List.of(
                "-fatbin",
                "-rdc=true",
                "-w",
                "-gencode",
                "arch=compute_%s,code=lto_%s".formatted(number, number)));
    spec.options().stream()
        .filter(option -> !option.startsWith(KernelSpec.ARCHITECTURE_OPTION))
        .forEach(options::add);
    return options;
  }

  /** Runs the program; its output goes to a file, so that no read outlasts the deadline. */
  private static String execute(List<String> command) {
    try {
      Path log = Files.createTempFile("ep4j-nvcc", ".log");
      try {
        return execute(command, log);
      } finally {
        Files.delete(log);
      }
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
      throw new EngineUnavailableException(
          ErrorCode.KERNEL_COMPILATION_FAILED, "interrupted while nvcc was compiling");
    }
  }

  private static String execute(List<String> command, Path log)
      throws IOException, InterruptedException {
    Process process =
        new ProcessBuilder(command).redirectErrorStream(true).redirectOutput(log.toFile()).start();
    boolean ended = false;
    try {
      ended = process.waitFor(LONGEST_SECONDS, TimeUnit.SECONDS);
    } finally {
      if (!ended) {
        // The passes that it has started would otherwise run for minutes.
        List<ProcessHandle> passes = process.descendants().toList();
        process.destroyForcibly();
        passes.forEach(ProcessHandle::destroyForcibly);
      }
    }
    String output = Files.readString(log, StandardCharsets.UTF_8);
    if (!ended || process.exitValue() != 0) {
      throw new EngineUnavailableException(
          ErrorCode.KERNEL_COMPILATION_FAILED,
          String.join(" ", command)
              + (ended ? " failed" : " has not ended after " + LONGEST_SECONDS + " s")
              + ":\n"
              + output);
    }
    return output;
  }

  /** The path of a program of the CUDA toolkit; empty if there is none. */
  static String search(String variable, String program) {
    String named = System.getenv().getOrDefault(variable, "");
    if (!named.isEmpty()) {
      return Files.isExecutable(Path.of(named)) ? named : "";
    }
    List<String> places =
        new ArrayList<>(List.of(System.getenv().getOrDefault("PATH", "").split(":", -1)));
    places.add("/usr/local/cuda/bin");
    for (String place : places) {
      Path file = Path.of(place, program);
      if (Files.isExecutable(file)) {
        return file.toString();
      }
    }
    return "";
  }

  private static void delete(Path directory) throws IOException {
    try (Stream<Path> tree = Files.walk(directory)) {
      for (Path path : tree.sorted(Comparator.reverseOrder()).toList()) {
        Files.delete(path);
      }
    }
  }
}
