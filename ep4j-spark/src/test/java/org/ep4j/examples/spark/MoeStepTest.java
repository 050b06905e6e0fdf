package org.ep4j.examples.spark;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.ByteArrayOutputStream;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import org.junit.jupiter.api.Test;

/** The program, as spark-submit starts it: settings are system properties. */
class MoeStepTest {
  @Test
  void printsTheSumsOfAllRanks() {
    PrintStream before = System.out;
    var printed = new ByteArrayOutputStream();
    System.setProperty("spark.master", "local[4]");
    System.setProperty("spark.ui.enabled", "false");
    System.setOut(new PrintStream(printed, true, StandardCharsets.UTF_8));
    try {
      MoeStep.main("4");
    } finally {
      System.setOut(before);
      System.clearProperty("spark.master");
      System.clearProperty("spark.ui.enabled");
    }
    assertThat(printed.toString(StandardCharsets.UTF_8).lines())
        .containsExactly(
            "[0.0, 1.25, 2.5, 3.75]",
            "[2.25, 2.25, 4.5, 6.75]",
            "[6.5, 3.25, 6.5, 9.75]",
            "[9.75, 3.25, 6.5, 9.75]");
  }
}
