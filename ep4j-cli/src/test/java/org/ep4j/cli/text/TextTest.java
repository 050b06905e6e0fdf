package org.ep4j.cli.text;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.ByteArrayOutputStream;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;

class TextTest {
  @Test
  void tablesAlignNumbersToTheRight() {
    Table table = new Table("operation", "median");
    table.row("dispatch", "9.1 ms");
    table.row("combine", "12.3 ms");

    assertThat(table.render(Style.PLAIN).lines())
        .containsExactly(
            "operation   median", //
            "dispatch    9.1 ms",
            "combine    12.3 ms");
  }

  @Test
  void headingsOfSeveralLinesEndOnOneLine() {
    Table table = new Table("operation", "logical\nGB/s");
    table.row("dispatch", "1.23");

    assertThat(table.render(Style.PLAIN).lines())
        .containsExactly("           logical", "operation     GB/s", "dispatch      1.23");
  }

  @Test
  void columnsThatDoNotFitContinueBelow() {
    Table table = new Table("operation", "a".repeat(40), "b".repeat(40), "c".repeat(40));
    table.row("dispatch", "1", "2", "3");

    String text = table.render(Style.PLAIN);
    assertThat(text.lines()).allMatch(line -> line.length() <= Table.WIDTH);
    assertThat(text.lines().filter(line -> line.startsWith("dispatch"))).hasSize(2);
    assertThat(text).contains("a".repeat(40), "b".repeat(40), "c".repeat(40));
  }

  @Test
  void textIsWrappedBetweenWords() {
    assertThat(Wrapped.lines("one two three", 7)).isEqualTo("one two\nthree");
    assertThat(Wrapped.lines("extraordinary", 5)).isEqualTo("extraordinary");
  }

  @Test
  void coloursDoNotMoveColumns() {
    Table table = new Table("a", "b");
    table.row("long name", "1");

    String plain = table.render(Style.COLOURED).replaceAll("\u001b\\[[0-9]*m", "");
    assertThat(plain).isEqualTo(table.render(Style.PLAIN));
  }

  @Test
  void unitsFitTheSize() {
    assertThat(Units.bytes(512)).isEqualTo("512 B");
    assertThat(Units.bytes(58_720_256)).isEqualTo("56.0 MiB");
    assertThat(Units.micros(1.234)).isEqualTo("1.23 us");
    assertThat(Units.micros(71_234)).isEqualTo("71.2 ms");
    assertThat(Units.micros(2_500_000)).isEqualTo("2.50 s");
    assertThat(Units.significant(123.4)).isEqualTo("123");
  }

  @Test
  void jsonKeepsOrderAndEscapes() {
    Map<String, Object> tree = new LinkedHashMap<>();
    tree.put("z", "quote \" and \\");
    tree.put("a", List.of(1, true));
    tree.put("times", new double[] {1.5, 2});

    String flat = Json.text(tree).replaceAll("\\s+", "");
    assertThat(flat).isEqualTo("{\"z\":\"quote\\\"and\\\\\",\"a\":[1,true],\"times\":[1.5,2.0]}");
  }

  @Test
  void progressIsSilentWithoutATerminal() {
    ByteArrayOutputStream seen = new ByteArrayOutputStream();
    PrintStream out = new PrintStream(seen, true, StandardCharsets.UTF_8);
    try (Progress progress = Progress.silent()) {
      progress.at("working");
      progress.above(() -> out.print("result"));
      assertThat(progress.visible()).isFalse();
    }
    assertThat(Arrays.equals(seen.toByteArray(), "result".getBytes(StandardCharsets.UTF_8)))
        .isTrue();
  }
}
