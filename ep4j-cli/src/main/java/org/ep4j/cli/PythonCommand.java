package org.ep4j.cli;

import java.io.PrintWriter;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Map;
import java.util.concurrent.Callable;
import org.ep4j.error.ErrorCode;
import org.jspecify.annotations.Nullable;
import picocli.CommandLine.Command;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Spec;

/** Prints the lines that let Python programs of a shell import ep4j. */
@Command(
    name = "python",
    description = {
      "Print the lines that let Python programs of a shell import ep4j.",
      "",
      "For this shell: eval \"$(ep4j python)\". The packages find the jars of the bundle or clone"
          + " that holds them. A clone has no Java runtime of its own: there the lines name the one"
          + " of this command, unless EP4J_JAVA_HOME is set.",
      ""
    })
final class PythonCommand implements Callable<Integer> {
  private static final String PACKAGE = "python/ep4j/__init__.py";

  @Spec private @Nullable CommandSpec spec;

  @Override
  public Integer call() {
    Path root = root(Build.firstJar());
    PrintWriter out = CommandSpecs.require(spec).root().commandLine().getOut();
    out.print(lines(root, System.getenv(), System.getProperty("java.home")));
    out.flush();
    return ExitCodes.OK;
  }

  /** The bundle or clone above a jar. */
  static Path root(Path jar) {
    for (Path at = jar.toAbsolutePath(); at != null; at = at.getParent()) {
      if (Files.isRegularFile(at.resolve(PACKAGE))) {
        return at;
      }
    }
    throw new CommandFailure(
        ErrorCode.NOT_A_CLONE,
        ExitCodes.USAGE,
        "ep4j python needs a bundle or a clone: no directory above %s holds %s: call it in one"
            .formatted(jar, PACKAGE));
  }

  /**
   * The lines.
   *
   * @param root the bundle or clone
   * @param environment of this process
   * @param java directory of the present Java runtime
   */
  static String lines(Path root, Map<String, String> environment, String java) {
    String path = "export PYTHONPATH=" + quote(root.resolve("python").toString());
    String lines = path + "${PYTHONPATH:+:$PYTHONPATH}" + System.lineSeparator();
    String home = environment.getOrDefault("EP4J_HOME", "");
    if (!home.isEmpty() && !Path.of(home).toAbsolutePath().normalize().equals(root)) {
      lines += "export EP4J_HOME=" + quote(root.toString()) + System.lineSeparator();
    }
    boolean hasJava =
        Files.isDirectory(root.resolve("runtime"))
            || !environment.getOrDefault("EP4J_JAVA_HOME", "").isEmpty();
    return hasJava
        ? lines
        : lines + "export EP4J_JAVA_HOME=" + quote(java) + System.lineSeparator();
  }

  private static String quote(String text) {
    return text.matches("[A-Za-z0-9_./+-]+") ? text : "'" + text.replace("'", "'\\''") + "'";
  }
}
