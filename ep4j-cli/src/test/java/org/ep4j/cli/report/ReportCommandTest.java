package org.ep4j.cli.report;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.Stream;
import org.ep4j.cli.CommandLineRun;
import org.ep4j.cli.ExitCodes;
import org.ep4j.cli.text.Json;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

class ReportCommandTest {
  /** Ends elements, attributes, strings and scripts, and obeys no terminal. */
  static final String HOSTILE =
      "</script><script>document.title='taken'</script>\"'><img src=x onerror=alert(1)>\u001b[2J"
          + "\u2028\u202e${x}@STYLE@";

  @TempDir Path scratch;
  private Path slow;
  private Path fast;
  private Path page;

  @BeforeEach
  void writeRuns() throws IOException {
    slow = SampleRuns.write(scratch.resolve("slow.json"), SampleRuns.run(1000, "a processor"));
    fast = SampleRuns.write(scratch.resolve("fast.json"), SampleRuns.run(800, "a processor"));
    page = scratch.resolve("page.html");
  }

  @Test
  void aPageOfOneRunShowsItsFiguresMachineAndMeaning() throws IOException {
    CommandLineRun run = report(slow.toString());

    assertThat(run.err()).isEmpty();
    assertThat(run.code()).isEqualTo(ExitCodes.OK);
    assertThat(Files.readString(page))
        .contains("dispatch bf16, 8 SMs", "ll_pair bf16, calls, 64 tokens", "1.05 ms", "GB/s")
        .contains("a processor", "16.0 GiB", "✓ Verified", "What the figures mean")
        .contains("Permission to use, copy, modify");
  }

  @Test
  void thePageLoadsNothing() throws IOException {
    report(slow.toString(), fast.toString());
    String html = Files.readString(page);

    assertThat(html).doesNotContainPattern("<(script|img|link|iframe)[^>]*(src|href)=");
    assertThat(html).contains("default-src 'none'");
    assertThat(html.split("\n<main>", -1)[1].split("<script", -1)[0]).doesNotContain("http:");
  }

  @Test
  void twoRunsAreComparedWithIntervalsInThePageAndInTheTerminal() throws IOException {
    CommandLineRun run = report(slow.toString(), fast.toString());

    assertThat(run.code()).isEqualTo(ExitCodes.OK);
    assertThat(run.out())
        .containsPattern("dispatch bf16, 8 SMs: faster by [12][0-9]\\.\\d % \\(95 %: .*\\)");
    assertThat(Files.readString(page)).containsPattern("faster by [12][0-9]\\.\\d %");
    assertThat(report(fast.toString(), slow.toString()).out())
        .containsPattern("combine bf16, 16 SMs: slower by 2[0-9]\\.\\d %");
  }

  @Test
  void runsOfEqualProgramsShowNoDifference() throws IOException {
    Map<String, Object> again = SampleRuns.run(1000.4, "a processor");
    Path other = SampleRuns.write(scratch.resolve("again.json"), again);

    assertThat(report(slow.toString(), other.toString()).out())
        .contains("no difference that these runs can show")
        .doesNotContain(" faster by", " slower by");
    assertThat(report(other.toString(), slow.toString()).out())
        .contains("no difference that these runs can show")
        .doesNotContain(" faster by", " slower by");
  }

  @Test
  void runsOfOtherWorkAreMarked() throws IOException {
    String text = Files.readString(fast).replace("\"tokens\" : 4096", "\"tokens\" : 128");
    Files.writeString(fast, text);

    assertThat(report(slow.toString(), fast.toString()).out())
        .contains("different work (tokens 4096 / 128)");
    assertThat(Files.readString(page)).contains("different work (tokens 4096 / 128)");
  }

  /** The numbers of tokens stand in the names of these operations: pairs did the same work. */
  @Test
  void furtherOperationsOfARunAreNoOtherWork() throws IOException {
    Map<String, Object> longer = SampleRuns.run(800, "a processor");
    Map<String, Object> options = new LinkedHashMap<>(SampleRuns.configuration());
    options.put("ll_tokens", List.of(1, 64, 128));
    longer.put("configuration", options);
    SampleRuns.write(fast, longer);
    assertThat(report(slow.toString(), fast.toString()).out()).doesNotContain("different work");

    String onlyLowLatency =
        Json.text(longer)
            .replaceAll("\"(dispatch|combine)\"", "\"other_$1\"")
            .replace("\"tokens\" : 4096", "\"tokens\" : 128");
    Files.writeString(fast, onlyLowLatency);
    assertThat(report(slow.toString(), fast.toString()).out()).doesNotContain("different work");
  }

  @Test
  void lowLatencyOfOtherTokensIsOtherWorkIfItsNameDoesNotSaySo() throws IOException {
    for (Path file : List.of(slow, fast)) {
      String text = Files.readString(file).replaceAll(",\\s*\"tokens\" : (1|64)(?!\\d)", "");
      Files.writeString(file, text);
    }
    Files.writeString(
        fast, Files.readString(fast).replaceAll("\"ll_tokens\" : \\[.*\\]", "\"ll_tokens\" : [7]"));

    assertThat(report(slow.toString(), fast.toString()).out())
        .contains("different work (ll_tokens 1, 64 / 7)");
  }

  @Test
  void iterationsThatTookNoTimeHaveNoInterval() throws IOException {
    String text = Files.readString(fast).replaceAll("(\"iterations_us\" : \\[ )[0-9.]+", "$10");
    Files.writeString(fast, text);

    assertThat(report(slow.toString(), fast.toString()).out())
        .contains("no interval: an iteration took 0 us")
        .doesNotContain(" faster by");
  }

  @Test
  void withoutSingleIterationsThereAreMediansAndNoInterval() throws IOException {
    String text =
        Files.readString(fast).replaceAll("\"iterations_us\" : \\[[^\\]]*\\]", "\"x\" : 1");
    Files.writeString(fast, text);

    assertThat(report(slow.toString(), fast.toString()).out())
        .contains("no interval: an artifact holds no single iterations")
        .doesNotContain(" faster by");
  }

  /** A run of several formats combines rows of one format several times. */
  @Test
  void resultsOfOneNameArePairedInTheirOrder() throws IOException {
    Map<String, Object> twice = SampleRuns.run(1000, "a processor");
    List<Object> results = new ArrayList<>((List<?>) twice.get("results"));
    results.addAll((List<?>) SampleRuns.run(500, "a processor").get("results"));
    twice.put("results", results);
    Path first = SampleRuns.write(scratch.resolve("twice.json"), twice);
    Path second = Files.writeString(scratch.resolve("later.json"), Files.readString(first) + " ");

    String text = report(first.toString(), second.toString()).out();

    assertThat(text).contains("dispatch bf16, 8 SMs (2)").doesNotContain("faster by", "slower by");
  }

  @Test
  void namesFromAnArtifactStayText() throws IOException {
    Map<String, Object> hostile = SampleRuns.run(700, HOSTILE);
    Path file = scratch.resolve("<b>.json");
    String json =
        Json.text(hostile)
            .replace("\"ll_pair\"", Json.text(HOSTILE).strip())
            .replace("\"all\"", Json.text(HOSTILE).strip());
    Files.writeString(file, json);
    CommandLineRun run = report(slow.toString(), file.toString());

    assertThat(run.code()).isEqualTo(ExitCodes.OK);
    assertThat(run.out()).doesNotContain("\u001b", "\u202e");
    String html = Files.readString(page);
    assertThat(html)
        .contains("&lt;/script&gt;&lt;script&gt;document.title", "@STYLE@", "&lt;b&gt;");
    assertThat(html).contains("\\u003c/script\\u003e");
    assertThat(html).doesNotContain("<script>document", "<img", "<b>", "\u001b", "\u202e");
    assertThat(html.split("<script", -1)).hasSize(4);
  }

  @ParameterizedTest
  @CsvSource(
      delimiter = '|',
      value = {
        "'{\"ep4j\" : '                        | EP4J-8050 | no whole JSON",
        "''                                    | EP4J-8050 | no whole JSON",
        "[1, 2]                                | EP4J-8050 | it must be an object",
        "'{\"a\" : 1}'                         | EP4J-8050 | ep4j is missing",
        "'{\"ep4j\" : \"1\"}'               | EP4J-8050 | other.json: results is missing",
        "'{\"ep4j\":\"1\", \"results\":[]}'    | EP4J-8050 | git is missing",
        "'{\"ep4j\":\"2\",\"format\":\"bench/2\"}' | EP4J-8051 | bench/2; this version reads bench/1",
        "'{\"ep4j\":\"2\",\"format\":7}'       | EP4J-8051 | this version reads bench/1"
      })
  void otherJsonIsRefused(String text, String code, String words) throws IOException {
    Path file = Files.writeString(scratch.resolve("other.json"), text);

    refused(code, words, slow.toString(), file.toString());
  }

  @ParameterizedTest
  @CsvSource({
    "'\"median_us\" : [0-9.]+', '\"median_us\" : 1e999', is Infinity; it must be a number",
    "'\"median_us\" : [0-9.]+', '\"median_us\" : -1', is -1.0; it must be a number",
    "'\"iterations\" : 120', '\"iterations\" : 7', 120 numbers; it must be as many as iterations",
    "'\"op\" : \"[a-z]+\"', '\"op\" : 3', it must be a text"
  })
  void nonsenseInAnArtifactIsRefused(String from, String to, String words) throws IOException {
    Files.writeString(fast, Files.readString(fast).replaceFirst(from, to));

    refused("EP4J-8050", words, fast.toString());
  }

  @Test
  void everyShortenedArtifactIsRefused() throws IOException {
    byte[] whole = Files.readAllBytes(slow);
    Path file = scratch.resolve("part.json");
    for (int length = 0; length < whole.length - 2; length += 997) {
      Files.write(file, Arrays.copyOf(whole, length));
      refused("EP4J-8050", "no whole JSON", file.toString());
    }
  }

  @Test
  void anArtifactOfATestHoldsNoTimes() throws IOException {
    Map<String, Object> test = SampleRuns.run(1, "a processor");
    test.put("results", List.of(Map.of("op", "pressure", "seconds", 1)));
    SampleRuns.write(fast, test);

    refused("EP4J-8050", "results[0].iterations is missing", fast.toString());
  }

  @Test
  void oneRunIsNotComparedWithItself() throws IOException {
    Path copy = Files.copy(slow, scratch.resolve("copy.json"));

    refused("EP4J-8053", "hold the same run", slow.toString(), slow.toString());
    refused("EP4J-8053", "hold the same run", slow.toString(), copy.toString());
  }

  @Test
  void runsWithNothingInCommonAreRefused() throws IOException {
    Files.writeString(fast, Files.readString(fast).replace("bf16", "fp8"));

    refused("EP4J-8052", "dispatch bf16, 8 SMs", slow.toString(), fast.toString());
  }

  @Test
  void aMissingFileAndADirectoryAreRefused() {
    refused(
        "EP4J-7003",
        "cannot be read: there is no such file",
        scratch.resolve("none.json").toString());
    refused("EP4J-8050", "no regular file", scratch.toString());
    refused("EP4J-8050", "no regular file", "/dev/zero");
  }

  @Test
  void anOutputThatCannotBeWrittenIsRefused() throws IOException {
    String missing = scratch.resolve("none/page.html").toString();
    String before = Files.readString(slow);

    assertThat(run(slow.toString(), "--output", missing).err()).contains("EP4J-8054");
    assertThat(run(slow.toString(), "--output", scratch.toString()).err()).contains("EP4J-8054");
    CommandLineRun over = run(slow.toString(), "--output", slow.toString());
    assertThat(over.err()).contains("EP4J-8054").contains("is the input");
    assertThat(over.code()).isEqualTo(ExitCodes.USAGE);
    assertThat(Files.readString(slow)).isEqualTo(before);
  }

  @Test
  void thePageGoesToStandardOutputAndTheTextToStandardError() {
    CommandLineRun run = run(slow.toString(), fast.toString(), "--output", "-");

    assertThat(run.out()).startsWith("<!DOCTYPE html>").endsWith("</html>\n");
    assertThat(run.err()).contains("faster by");
  }

  private void refused(String code, String words, String... files) {
    CommandLineRun run = report(files);

    assertThat(run.err()).contains(code, words).doesNotContain("\tat ");
    assertThat(run.code()).isEqualTo(ExitCodes.FAILED);
    assertThat(run.out()).isEmpty();
    try (Stream<Path> left = Files.list(scratch)) {
      assertThat(left.map(Path::toString))
          .noneMatch(name -> name.endsWith(".html") || name.endsWith(".unfinished"));
    } catch (IOException e) {
      throw new AssertionError(e);
    }
  }

  private CommandLineRun report(String... files) {
    List<String> arguments = new ArrayList<>(List.of(files));
    arguments.addAll(List.of("--output", page.toString()));
    return run(arguments.toArray(String[]::new));
  }

  private static CommandLineRun run(String... arguments) {
    List<String> line = new ArrayList<>(List.of("report"));
    line.addAll(List.of(arguments));
    return CommandLineRun.of(line.toArray(String[]::new));
  }
}
