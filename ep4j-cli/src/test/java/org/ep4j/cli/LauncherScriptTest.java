package org.ep4j.cli;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assumptions.assumeThat;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.nio.file.attribute.FileTime;
import java.nio.file.attribute.PosixFilePermissions;
import java.time.Instant;
import java.util.List;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/**
 * The script {@code ep4j} in a clone whose java and mvn are scripts: they print their arguments,
 * and the build leaves jars behind.
 */
class LauncherScriptTest {
  /** What the script calls: Maven of this machine must not be found. */
  private static final List<String> TOOLS =
      List.of(
          "basename",
          "bash",
          "cat",
          "cksum",
          "date",
          "dirname",
          "find",
          "flock",
          "mkdir",
          "readlink",
          "rm",
          "sort",
          "touch",
          "uname",
          "xargs");

  private static final String BASH = "#!/usr/bin/env bash\n";

  @TempDir Path folder;

  private Path clone = Path.of("");
  private Path lib = Path.of("");
  private Path source = Path.of("");

  @BeforeEach
  void copyTheScript() throws IOException {
    Path script = Path.of("..", "ep4j");
    assumeThat(script).as("missing in a bundle").exists();
    clone = folder.resolve("clone");
    Files.createDirectories(clone.resolve("tools"));
    Files.copy(script, clone.resolve("ep4j"), StandardCopyOption.COPY_ATTRIBUTES);
    Files.copy(Path.of("..", "tools", "common.sh"), clone.resolve("tools/common.sh"));
    Files.writeString(clone.resolve("pom.xml"), "");
    for (String module : watchedModules(Files.readString(script))) {
      Path main = Files.createDirectories(clone.resolve(module + "/src/main"));
      Files.writeString(clone.resolve(module + "/pom.xml"), "");
      source = Files.writeString(main.resolve("Source.java"), "class Source {}");
    }
    lib = clone.resolve("ep4j-cli/target/quick/lib");
    program("jdk/bin/java", BASH + "echo runs ${@: -1}");
    Files.writeString(folder.resolve("jdk/release"), "JAVA_VERSION=\"25.0.1\"\n");
    for (String tool : TOOLS) {
      program("bin/" + tool, "#!/bin/sh\nexec /usr/bin/" + tool + " \"$@\"");
    }
    program(
        "bin/mvn",
        BASH
            + "mkdir -p "
            + lib
            + "; rm -f "
            + lib
            + "/*; echo built >&2; touch "
            + lib
            + "/built");
  }

  /** The modules whose sources the script looks at. */
  private static String[] watchedModules(String script) {
    Matcher list = Pattern.compile("for module in ([^;]+);").matcher(script);
    assertThat(list.find()).isTrue();
    return list.group(1).split(" ");
  }

  @Test
  void aChangedSourceIsBuiltAndTheBuildRunsWithoutMavenAfterwards() throws Exception {
    assertThat(run()).contains("built", "runs version");
    assertThat(run()).doesNotContain("built").contains("runs version");

    Files.writeString(source, "class Changed {}");
    Files.setLastModifiedTime(source, FileTime.from(Instant.now().plusSeconds(5)));
    assertThat(run()).contains("built");
  }

  @Test
  void aCopiedCloneNeedsNoMavenWhateverItsTimes() throws Exception {
    assertThat(run()).contains("built");
    Files.setLastModifiedTime(source, FileTime.from(Instant.now().plusSeconds(5)));

    assertThat(run()).doesNotContain("built").contains("runs version");
  }

  @Test
  void withoutMavenAnEarlierBuildRunsWithAWarning() throws Exception {
    assertThat(run()).contains("built");
    Files.writeString(source, "class Changed {}");
    Files.setLastModifiedTime(source, FileTime.from(Instant.now().plusSeconds(5)));
    Files.delete(folder.resolve("bin/mvn"));

    assertThat(run()).contains("Maven is missing", "runs version");
  }

  @Test
  void aUserWithoutADirectoryCanRunIt() throws Exception {
    ProcessBuilder script = script();
    script.environment().keySet().removeAll(List.of("HOME", "EP4J_JAVA_HOME"));
    script.environment().put("JAVA_HOME", folder.resolve("jdk").toString());

    assertThat(said(script)).contains("runs version").doesNotContain("HOME");
  }

  /** Without such a locale a JVM does not start from a directory whose name is not ASCII. */
  @Test
  void theJvmGetsALocaleThatCanWriteAllFileNames() throws Exception {
    program("jdk/bin/java", BASH + "echo \"runs in ${LC_ALL:-no other}\"");
    for (String locale : List.of("C", "POSIX", "xx_XX.UTF-8")) {
      ProcessBuilder script = script();
      script.environment().put("EP4J_JAVA_HOME", folder.resolve("jdk").toString());
      script.environment().put("LC_ALL", locale);
      assertThat(said(script)).as(locale).contains("runs in C.UTF-8");
    }
    ProcessBuilder script = script();
    script.environment().put("EP4J_JAVA_HOME", folder.resolve("jdk").toString());
    script.environment().keySet().removeAll(List.of("LC_ALL", "LC_CTYPE"));
    script.environment().put("LANG", "C.UTF-8");
    assertThat(said(script)).contains("runs in no other");
  }

  @ParameterizedTest
  @ValueSource(
      strings = {
        "8gb",
        "zz",
        "-1g",
        "1",
        "1k",
        "63m",
        "67108863",
        "65t",
        "99999t",
        "99999999999999999999t"
      })
  void aHeapWithWhichNoJvmStartsIsRefused(String heap) throws Exception {
    Process process = withHeap(heap).start();
    String said = said(process);

    assertThat(process.exitValue()).isEqualTo(ExitCodes.USAGE);
    assertThat(said)
        .contains("EP4J-1006: EP4J_HEAP = " + heap + "; it must be a size from 64m to 64t")
        .doesNotContain("runs");
  }

  @ParameterizedTest
  @ValueSource(strings = {"", "64M", "67108864", "65536k", "1g", "64t", "70368744177664"})
  void anyOtherHeapIsThatOfTheJvm(String heap) throws Exception {
    program("jdk/bin/java", BASH + "echo runs with $1");

    assertThat(said(withHeap(heap).start()))
        .contains("runs with " + (heap.isEmpty() ? "--add-modules" : "-Xmx" + heap));
  }

  private ProcessBuilder withHeap(String heap) {
    ProcessBuilder script = script();
    script.environment().put("EP4J_JAVA_HOME", folder.resolve("jdk").toString());
    script.environment().put("EP4J_HEAP", heap);
    return script;
  }

  /** The script of a bundle repeats both checks: it needs no other file. */
  @Test
  void aBundleChecksHeapAndLocaleToo() throws Exception {
    program("bundle/runtime/bin/java", BASH + "echo \"runs in $LC_ALL with $1\"");
    program("bundle/ep4j", Files.readString(Path.of("..", "tools", "bundle-launcher")));
    ProcessBuilder script = script().command(folder.resolve("bundle/ep4j").toString(), "version");
    script.environment().put("LC_ALL", "C");
    script.environment().put("EP4J_HEAP", "3g");
    assertThat(said(script)).contains("runs in C.UTF-8 with -Xmx3g");

    for (String heap : List.of("zz", "1k", "99999t")) {
      script.environment().put("EP4J_HEAP", heap);
      assertThat(said(script)).contains("EP4J-1006: EP4J_HEAP = " + heap).doesNotContain("runs");
    }
  }

  @Test
  void otherSystemsAreRefused() throws Exception {
    program("bin/uname", BASH + "[ \"$1\" = -s ] && echo Darwin || echo arm64");

    assertThat(run()).contains("EP4J-8105: this machine runs Darwin on arm64");
  }

  @Test
  void aLimitOfOpenFilesThatNoJvmSurvivesIsNamed() throws Exception {
    ProcessBuilder script = script();
    script.command("sh", "-c", "ulimit -n 12; exec \"$0\" version", script.command().getFirst());
    script.environment().put("EP4J_JAVA_HOME", folder.resolve("jdk").toString());

    assertThat(said(script)).contains("EP4J-8016: a process may have 12 open files", "ulimit -n");
  }

  private String run() throws Exception {
    ProcessBuilder script = script();
    script.environment().put("EP4J_JAVA_HOME", folder.resolve("jdk").toString());
    return said(script);
  }

  private ProcessBuilder script() {
    ProcessBuilder script = new ProcessBuilder(clone.resolve("ep4j").toString(), "version");
    script.environment().put("PATH", folder.resolve("bin").toString());
    return script.redirectErrorStream(true);
  }

  private static String said(ProcessBuilder script) throws Exception {
    return said(script.start());
  }

  private static String said(Process process) throws Exception {
    String said = new String(process.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
    process.waitFor();
    return said;
  }

  private void program(String name, String text) throws IOException {
    Path path = folder.resolve(name);
    Files.createDirectories(path.getParent());
    Files.writeString(path, text + "\n");
    Files.setPosixFilePermissions(path, PosixFilePermissions.fromString("rwxr-xr-x"));
  }
}
