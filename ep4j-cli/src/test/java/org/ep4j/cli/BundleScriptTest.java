package org.ep4j.cli;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assumptions.assumeThat;

import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** {@code ./ep4j bundle} in a clone is a script; what it refuses, it refuses like any command. */
class BundleScriptTest {
  @ParameterizedTest
  @CsvSource({
    "--frobnicate, unknown option --frobnicate",
    "--output, --output needs a file",
    "--output=x.zip, the name must end in .tar.xz"
  })
  void wrongUsageIsToldBeforeAnythingIsBuilt(String argument, String message) throws Exception {
    Path script = Path.of("..", "tools", "bundle");
    assumeThat(script).as("absent in a bundle").exists();
    Process process =
        new ProcessBuilder(script.toString(), argument).redirectErrorStream(true).start();
    String said = new String(process.getInputStream().readAllBytes(), StandardCharsets.UTF_8);

    assertThat(process.waitFor()).as(said).isEqualTo(ExitCodes.USAGE);
    assertThat(said).contains(message);
  }
}
