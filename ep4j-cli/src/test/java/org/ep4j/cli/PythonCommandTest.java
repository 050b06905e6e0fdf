package org.ep4j.cli;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Map;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** The lines of {@code ep4j python} in a clone and in a bundle. */
class PythonCommandTest {
  private static final String REST = "${PYTHONPATH:+:$PYTHONPATH}\n";

  @TempDir private Path directory;

  @Test
  void thisCloneNamesItsPackagesAndItsJava() {
    CommandLineRun run = CommandLineRun.of("python");

    assertThat(run.code()).isEqualTo(ExitCodes.OK);
    Path python = Path.of("..", "python").toAbsolutePath().normalize();
    assertThat(run.out()).startsWith("export PYTHONPATH=" + python + REST);
  }

  @Test
  void aBundleHasAJavaRuntimeOfItsOwn() throws IOException {
    Path root = installation("plain");
    Files.createDirectory(root.resolve("runtime"));

    assertThat(PythonCommand.root(root.resolve("lib/ep4j-cli.jar"))).isEqualTo(root);
    assertThat(PythonCommand.lines(root, Map.of(), "/jdk"))
        .isEqualTo("export PYTHONPATH=" + root + "/python" + REST);
  }

  @Test
  void aCloneWithoutOneNamesThatOfTheCommand() throws IOException {
    Path root = installation("plain");

    assertThat(PythonCommand.lines(root, Map.of(), "/jdk"))
        .endsWith(REST + "export EP4J_JAVA_HOME=/jdk\n");
    assertThat(PythonCommand.lines(root, Map.of("EP4J_JAVA_HOME", "/other"), "/jdk"))
        .endsWith(REST);
  }

  @Test
  void settingsOfAnotherInstallationAreOverridden() throws IOException {
    Path root = installation("plain");

    assertThat(PythonCommand.lines(root, Map.of("EP4J_HOME", "/elsewhere"), "/jdk"))
        .contains("export EP4J_HOME=" + root + "\n");
    assertThat(PythonCommand.lines(root, Map.of("EP4J_HOME", root.toString()), "/jdk"))
        .doesNotContain("EP4J_HOME=" + root);
  }

  @Test
  void pathsAreQuotedForTheShell() throws IOException {
    Path root = installation("it's here");

    assertThat(PythonCommand.lines(root, Map.of(), "/jdk"))
        .startsWith("export PYTHONPATH='" + directory + "/it'\\''s here/python'" + REST);
  }

  @Test
  void jarsElsewhereAreAnError() {
    assertThatThrownBy(() -> PythonCommand.root(directory.resolve("ep4j-cli.jar")))
        .isInstanceOf(CommandFailure.class)
        .hasMessageContaining("EP4J-1911")
        .hasMessageContaining("needs a bundle or a clone");
  }

  private Path installation(String name) throws IOException {
    Path root = directory.resolve(name);
    Path packages = Files.createDirectories(root.resolve("python/ep4j"));
    Files.createFile(packages.resolve("__init__.py"));
    return root;
  }
}
