package org.ep4j.engine.host.kernel;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.File;
import java.net.URI;
import java.net.URL;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;

/** Runs a class of the tests, with the kernels, in a separate JVM: all on the class path. */
public final class ForkedJvm {
  private ForkedJvm() {}

  /**
   * A JVM that has ended.
   *
   * @param lines what it printed to both streams
   */
  public record Ended(int exitCode, List<String> lines) {}

  /** The lines that {@code main} prints to both streams until it ends. */
  public static List<String> run(Class<?> main, List<String> options, List<String> arguments)
      throws Exception {
    return run(List.of(), main, options, arguments).lines();
  }

  /**
   * Runs {@code main} in an environment of its own.
   *
   * @param launcher a command that runs the one behind it, such as {@code unshare}
   */
  public static Ended run(
      List<String> launcher, Class<?> main, List<String> options, List<String> arguments)
      throws Exception {
    List<String> command = new ArrayList<>(launcher);
    command.add(Path.of(System.getProperty("java.home"), "bin", "java").toString());
    command.addAll(options);
    command.add("-cp");
    command.add(location(RowKernels.class) + File.pathSeparator + location(main));
    command.add(main.getName());
    command.addAll(arguments);
    Process process = new ProcessBuilder(command).redirectErrorStream(true).start();
    List<String> lines;
    try (var reader = process.inputReader()) {
      lines = reader.lines().toList();
    }
    assertThat(process.waitFor(60, TimeUnit.SECONDS)).isTrue();
    return new Ended(process.exitValue(), lines);
  }

  /** The folder or jar of a class; tests are patched into the module that they test. */
  private static Path location(Class<?> type) throws Exception {
    String name = type.getName().replace('.', '/') + ".class";
    URL url = type.getResource("/" + name);
    assertThat(url).as(name).isNotNull();
    String path = url.toURI().toString();
    return path.startsWith("jar:")
        ? Path.of(URI.create(path.substring("jar:".length(), path.indexOf('!'))))
        : Path.of(URI.create(path.substring(0, path.length() - name.length())));
  }
}
