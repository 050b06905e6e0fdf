package org.ep4j.examples;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import org.ep4j.group.ThreadRanks;
import org.junit.jupiter.api.Test;

class QuickstartTest {
  @Test
  void everyTokenReturnsTimesTen() {
    List<float[]> results = ThreadRanks.call(2, Quickstart::forward);

    for (float[] result : results) {
      assertThat(result).containsExactly(10, 20, 30, 40, 50, 60, 70, 80);
    }
  }

  @Test
  void itIsAProgram() {
    Quickstart.main();
  }

  @Test
  void itFitsIn25LinesOfCode() throws IOException {
    Path source = Path.of("src/main/java/org/ep4j/examples/Quickstart.java");
    List<String> code =
        Files.readAllLines(source).stream()
            .map(String::strip)
            .filter(line -> !line.isEmpty() && !line.startsWith("/**"))
            .filter(line -> !line.startsWith("package ") && !line.startsWith("import "))
            .toList();

    assertThat(code).hasSizeLessThanOrEqualTo(25);
  }
}
