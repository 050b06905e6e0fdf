package org.ep4j.cli;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assumptions.assumeThat;

import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** Some commands are scripts in a clone; their errors have the form of all commands. */
class BundleScriptTest {
  @ParameterizedTest
  @CsvSource({
    "bundle, --frobnicate, EP4J-1901: unknown option --frobnicate",
    "bundle, --output, EP4J-1903: --output needs a file",
    "bundle, --output=x.zip, EP4J-1900: --output = x.zip",
    "docs, --frobnicate, EP4J-1901: unknown option --frobnicate",
    "docs, --output, EP4J-1903: --output needs a directory",
    "docs, --output=src, EP4J-1900: --output = src"
  })
  void wrongUsageIsReportedBeforeTheBuild(String name, String argument, String message)
      throws Exception {
    Path script = Path.of("..", "tools", name);
    assumeThat(script).as("missing in a bundle").exists();
    Process process =
        new ProcessBuilder(script.toString(), argument).redirectErrorStream(true).start();
    String said = new String(process.getInputStream().readAllBytes(), StandardCharsets.UTF_8);

    assertThat(process.waitFor()).as(said).isEqualTo(ExitCodes.USAGE);
    assertThat(said).contains(message);
  }
}
