package org.ep4j.cuda.driver;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.File;
import java.io.IOException;
import java.net.URI;
import java.net.URL;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.concurrent.TimeUnit;
import org.ep4j.cuda.driver.calls.CudaDriver;
import org.ep4j.tensor.Tensor;

/** Runs a test program in a separate JVM, with everything on the class path. */
public final class ForkedJvm {
  private static final long LONGEST_SECONDS = 120;

  private ForkedJvm() {}

  /** Starts {@code main} with its two output streams merged. */
  public static Process start(Class<?> main, Map<String, String> variables, List<String> arguments)
      throws IOException {
    List<String> command = new ArrayList<>();
    command.add(Path.of(System.getProperty("java.home"), "bin", "java").toString());
    command.addAll(
        List.of(
            "-XX:TieredStopAtLevel=1",
            "-XX:+UseSerialGC",
            "-XX:+UseTransparentHugePages",
            "-Xlog:pagesize=off",
            "-Xmx128m",
            "--enable-native-access=ALL-UNNAMED",
            "-cp",
            root(Tensor.class)
                + File.pathSeparator
                + root(CudaDriver.class)
                + File.pathSeparator
                + root(main),
            main.getName()));
    command.addAll(arguments);
    ProcessBuilder builder = new ProcessBuilder(command);
    builder.environment().putAll(variables);
    return builder.redirectErrorStream(true).start();
  }

  /** The lines that {@code main} prints; requires exit status 0. */
  public static List<String> run(
      Class<?> main, Map<String, String> variables, List<String> arguments)
      throws IOException, InterruptedException {
    return finish(start(main, variables, arguments));
  }

  /** The lines that a process prints; requires exit status 0. */
  public static List<String> finish(Process process) throws IOException, InterruptedException {
    List<String> lines;
    try (var reader = process.inputReader(StandardCharsets.UTF_8)) {
      lines = reader.lines().toList();
    }
    assertThat(process.waitFor(LONGEST_SECONDS, TimeUnit.SECONDS)).isTrue();
    assertThat(process.exitValue()).as(String.join("\n", lines)).isZero();
    return lines;
  }

  /** The folder or jar of a class; tests are patched into the module under test. */
  private static Path root(Class<?> type) {
    String name = "/" + type.getName().replace('.', '/') + ".class";
    URL url = Objects.requireNonNull(type.getResource(name));
    String text = url.toString();
    String root = text.substring(0, text.length() - name.length());
    return text.startsWith("jar:")
        ? Path.of(URI.create(root.substring("jar:".length(), root.length() - 1)))
        : Path.of(URI.create(root));
  }
}
