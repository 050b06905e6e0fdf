package org.ep4j.architecture;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.regex.Pattern;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;

/** Rule 2: one idea per file, one screenful or a few; and no unfinished work. */
class SourcesTest {
  private static final Pattern LEFTOVER = Pattern.compile("\\b(TO" + "DO|FIX" + "ME|XX" + "X)\\b");

  /** A comparison that NVIDIA's assembler may lose: docs/design/lost-predicates.md. */
  private static final Pattern TEST_OF_A_LANE =
      Pattern.compile("(\\blane(_id\\(\\))?|\\bthread|\\bthreadIdx\\.x( & 31\\))?) [=!]= ");

  /** The table of all error codes: one idea, however long. */
  private static final String TABLE = "ErrorCode.java";

  @Test
  void noJavaFileHoldsMoreThanOneIdea() throws IOException {
    assertThat(longerThan(600, ".java")).isEmpty();
  }

  @Test
  void noKernelFileHoldsMoreThanOneIdea() throws IOException {
    assertThat(longerThan(300, ".cu", ".cuh")).isEmpty();
  }

  @Test
  void kernelsAskAnewWhichLaneOrThreadRuns() throws IOException {
    assertThat(linesWith(TEST_OF_A_LANE, ".cu", ".cuh")).isEmpty();
  }

  @Test
  void nothingIsLeftForLater() throws IOException {
    assertThat(linesWith(LEFTOVER, ".java", ".cu", ".cuh")).isEmpty();
  }

  private static List<String> linesWith(Pattern pattern, String... endings) throws IOException {
    List<String> found = new ArrayList<>();
    for (Path file : sources(endings)) {
      List<String> lines = Files.readAllLines(file);
      for (int i = 0; i < lines.size(); i++) {
        if (pattern.matcher(lines.get(i)).find()) {
          found.add(file + ":" + (i + 1));
        }
      }
    }
    return found;
  }

  private static List<String> longerThan(int limit, String... endings) throws IOException {
    List<String> found = new ArrayList<>();
    for (Path file : sources(endings)) {
      int lines = Files.readAllLines(file).size();
      if (lines > limit && !file.endsWith(TABLE)) {
        found.add(file + " has " + lines + " lines, more than " + limit);
      }
    }
    return found;
  }

  private static List<Path> sources(String... endings) throws IOException {
    List<Path> modules;
    try (Stream<Path> children = Files.list(Repository.repository())) {
      modules = children.map(child -> child.resolve("src")).filter(Files::isDirectory).toList();
    }
    assertThat(modules).as("source directories").hasSizeGreaterThan(5);
    List<Path> files = new ArrayList<>();
    for (Path module : modules) {
      try (Stream<Path> tree = Files.walk(module)) {
        tree.filter(file -> Stream.of(endings).anyMatch(file.toString()::endsWith))
            .forEach(files::add);
      }
    }
    return files;
  }
}
