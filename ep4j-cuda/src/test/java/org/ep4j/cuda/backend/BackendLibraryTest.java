package org.ep4j.cuda.backend;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class BackendLibraryTest {
  @TempDir private Path directory;

  @Test
  void theVariableMayNameTheFileItsDirectoryOrTheOneAbove() throws IOException {
    Path file =
        Files.createFile(Files.createDirectories(directory.resolve("lib")).resolve("libx.so.1"));
    for (Path named : new Path[] {file, file.getParent(), directory}) {
      assertThat(places(Map.of("EP4J_X_HOME", named.toString())).candidates())
          .containsExactly(file.toString());
    }
  }

  @Test
  void withAWrongVariableNothingElseIsTried() {
    BackendLibrary places =
        places(Map.of("EP4J_X_HOME", "/no/such", "X_HOME", directory.toString()));
    assertThat(places.candidates()).containsExactly("/no/such");
    assertThat(places.missing()).contains("EP4J_X_HOME is '/no/such'");
  }

  @Test
  void variablesOfOthersComeBeforeTheLoader() throws IOException {
    Path file = Files.createFile(directory.resolve("libx.so.1"));
    List<String> found = places(Map.of("X_HOME", directory.toString())).candidates();
    assertThat(found.subList(0, 2)).containsExactly(file.toString(), "libx.so.1");
  }

  @Test
  void pythonPackagesOfTheEnvironmentAreSearched() throws IOException {
    Path file = directory.resolve("lib/python3.12/site-packages/nvidia/x/lib/libx.so.1");
    Files.createDirectories(file.getParent());
    Files.createFile(file);
    assertThat(places(Map.of("VIRTUAL_ENV", directory.toString())).candidates())
        .startsWith("libx.so.1")
        .contains(file.toString());
    // Also of the Python on the PATH.
    Map<String, String> path = Map.of("PATH", "/no/such:" + directory.resolve("bin"));
    assertThat(places(path).candidates()).doesNotContain(file.toString());
    Files.createFile(Files.createDirectory(directory.resolve("bin")).resolve("python3"));
    assertThat(places(path).candidates()).contains(file.toString());
  }

  /** Two installations: files of a library are found next to that library. */
  @Test
  void headersOfTheLoadedLibraryAreUsed() throws IOException {
    for (String installation : List.of("one", "two")) {
      Path home = directory.resolve(installation);
      Files.createFile(Files.createDirectories(home.resolve("lib")).resolve("libx.so.1"));
      Files.createFile(Files.createDirectories(home.resolve("include")).resolve("x.h"));
    }
    BackendLibrary places = places(Map.of("X_HOME", directory.resolve("one").toString()));
    assertThat(places.directoryWith("x.h", directory.resolve("two/lib/libx.so.1").toString()))
        .contains(directory.resolve("two/include"));
    assertThat(places.directoryWith("x.h", "libx.so.1")).contains(directory.resolve("one/include"));
    assertThat(places.directoryWith("libx.a", "libx.so.1")).isEmpty();
  }

  @Test
  void missingLibraryIsReportedWithItsPackage() {
    assertThat(places(Map.of()).missing())
        .startsWith("no libx.so.1: searched")
        .contains("install X 1")
        .contains("EP4J_X_HOME");
  }

  private static BackendLibrary places(Map<String, String> environment) {
    return new BackendLibrary("libx.so.1", "EP4J_X_HOME", List.of("X_HOME"), "X 1", environment);
  }
}
