package org.ep4j.cuda.driver.compiler;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class ToolkitPathsTest {
  private static final String STEM = "libep4jtest";

  @TempDir private Path home;

  @Test
  void theVariableIsTheOnlyPlaceWhereItIsSet() {
    assertThat(places(13, Map.of("EP4J_TEST", "/opt/x.so")).candidates())
        .containsExactly("/opt/x.so");
  }

  @Test
  void theVariableMayNameADirectory() throws IOException {
    Path library = file(home.resolve(STEM + ".so.13"));
    assertThat(places(0, Map.of("EP4J_TEST", home.toString())).candidates())
        .containsExactly(library.toString());
  }

  @Test
  void toolkitsAndPythonPackagesAreSearched() throws IOException {
    Path toolkit = file(home.resolve("cuda/lib64").resolve(STEM + ".so.13"));
    Path wheel =
        file(
            home.resolve("venv/lib/python3.12/site-packages/nvidia/x/lib")
                .resolve(STEM + ".so.12"));
    List<String> found =
        places(
                13,
                Map.of(
                    "CUDA_HOME", home.resolve("cuda").toString(),
                    "VIRTUAL_ENV", home.resolve("venv").toString()))
            .candidates();
    assertThat(found).containsSubsequence(STEM + ".so.13", toolkit.toString(), wheel.toString());
  }

  /** A driver of CUDA 12 refuses output of a compiler of CUDA 13. */
  @Test
  void librariesNewerThanTheDriverAreTriedLast() {
    assertThat(places(12, Map.of()).candidates())
        .containsSubsequence(STEM + ".so.12", STEM + ".so.13");
    assertThat(places(13, Map.of()).candidates())
        .containsSubsequence(STEM + ".so.13", STEM + ".so.12", STEM + ".so.14");
  }

  @Test
  void theMessageNamesThePlacesOrTheVariable() {
    assertThat(places(0, Map.of()).missing("Thing"))
        .contains(STEM + ".so.12", "/usr/local/cuda", "EP4J_TEST", "install");
    assertThat(places(0, Map.of("EP4J_TEST", "/opt/x.so")).missing("Thing"))
        .contains("EP4J_TEST is '/opt/x.so'");
  }

  private static ToolkitPaths places(int driver, Map<String, String> environment) {
    return new ToolkitPaths("EP4J_TEST", STEM, driver, environment);
  }

  private static Path file(Path path) throws IOException {
    Files.createDirectories(path.getParent());
    return Files.createFile(path);
  }
}
