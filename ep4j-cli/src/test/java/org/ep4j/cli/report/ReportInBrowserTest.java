package org.ep4j.cli.report;

import static org.assertj.core.api.Assertions.assertThat;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.io.DataInputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Stream;
import java.util.zip.Inflater;
import org.ep4j.cli.CommandLineRun;
import org.ep4j.cli.text.Json;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** Pages in Chromium, without a window. */
class ReportInBrowserTest {
  private static final Pattern MARK = Pattern.compile("class=\"[^\"]*\\bmark\\b[^\"]*\"");
  private static final Pattern CHART = Pattern.compile("<div class=\"chart\" id=\"chart-\\d+\">");
  private static final Pattern DRAWN = Pattern.compile("viewBox=\"0 0 (\\d+) \\d+\" role=");

  /** A figure at the end of a bar. */
  private static final Pattern FIGURE =
      Pattern.compile("<text class=\"value[^\"]*\" x=\"([\\d.]+)\"[^>]*>([^<]*)<");

  /** Parts of the times of two operations: seven terms, and four of them together. */
  private static final int PARTS = 2 * 8;

  /** Of a window, in pixels. */
  private static final int WIDTH = 1000;

  private static final int WHITE = 0xFFFFFF;
  private static final int DARK = 0x0D1117;

  @TempDir Path scratch;
  private Path page;

  /** What Chromium shows and reports. */
  private record Shown(String document, String console) {}

  @BeforeEach
  void writePage() throws Exception {
    assumeTrue(
        Boolean.getBoolean("ep4j.full"),
        "a browser takes half a minute of two cores; -Dep4j.full=true runs it");
    assumeTrue(
        chromium() != null, "NOT TESTED IN A BROWSER: chromium is not installed (apt install it)");
    page = scratch.resolve("page.html");
    Map<String, Object> hostile = SampleRuns.run(700, ReportCommandTest.HOSTILE);
    Path first = SampleRuns.write(scratch.resolve("first.json"), SampleRuns.run(1000, "a machine"));
    Path second = scratch.resolve("second.json");
    String operation = Json.text("combine" + ReportCommandTest.HOSTILE).strip();
    Files.writeString(second, Json.text(hostile).replace("\"combine\"", operation));
    List<String> arguments =
        new ArrayList<>(List.of("report", first.toString(), second.toString()));
    for (Path recording : SampleRecordings.ofThreeRanks(scratch)) {
      arguments.add(recording.toString());
    }
    arguments.addAll(List.of("--output", page.toString()));
    CommandLineRun run = CommandLineRun.of(arguments.toArray(String[]::new));
    assertThat(run.err()).isEmpty();
  }

  @ParameterizedTest
  @CsvSource({"1, light", "0, dark"})
  void everyChartIsDrawnWithoutAnError(int scheme, String name) throws Exception {
    Shown shown = show(page, scheme);

    assertThat(shown.console).as(name).isEmpty();
    String[] charts = CHART.split(shown.document);
    assertThat(charts).hasSizeGreaterThan(15);
    for (int i = 1; i < charts.length; i++) {
      String chart = charts[i].split("</svg></div>", -1)[0];
      assertThat(MARK.matcher(chart).results()).as("marks of chart %d", i - 1).isNotEmpty();
      assertThat(chart).doesNotContain("NaN", "undefined", "Infinity");
    }
    assertThat(backgroundOf(page, scheme)).isEqualTo(name.equals("dark") ? DARK : WHITE);
  }

  /** Of a plan with all charts, and of one with a hostile machine and all tables. */
  @ParameterizedTest
  @CsvSource({"1, 1000", "0, 1000", "1, 500"})
  void plansAreDrawnInLightAndDarkAndNarrow(int scheme, int width) throws Exception {
    Path usual = plan("usual.html", "--machine", "h100-cx7", "--ranks", "64");
    String profile = CommandLineRun.of("plan", "--machine", "h200", "--profile").out();
    String name = Json.text(ReportCommandTest.HOSTILE).strip();
    Path machine =
        Files.writeString(scratch.resolve("machine.json"), profile.replace("\"h200\"", name));
    Path hostile =
        plan(
            "hostile.html",
            "--machine",
            machine.toString(),
            "--routing",
            "zipf",
            "--balance",
            "--simulate");

    for (Path file : List.of(usual, hostile)) {
      Shown shown = show(file, scheme, width);

      assertThat(shown.console).as(file.toString()).isEmpty();
      assertThat(shown.document).contains("<title>ep4j plan</title>").doesNotContain("<img");
      String[] charts = CHART.split(shown.document);
      assertThat(charts).hasSize(1 + (file.equals(usual) ? 3 : 2));
      for (int i = 1; i < charts.length; i++) {
        String chart = charts[i].split("</svg></div>", -1)[0];
        assertThat(MARK.matcher(chart).results()).as("marks of chart %d", i - 1).isNotEmpty();
        assertThat(chart).doesNotContain("NaN", "undefined", "Infinity");
        Matcher drawn = DRAWN.matcher(chart);
        assertThat(drawn.find()).isTrue();
        assertThat(Integer.parseInt(drawn.group(1))).isBetween(width / 2, width);
        int figures = figuresInside(chart, Integer.parseInt(drawn.group(1)));
        assertThat(figures).as("figures of chart %d", i - 1).isEqualTo(i == 1 ? PARTS : 0);
      }
    }
    assertThat(backgroundOf(usual, scheme)).isEqualTo(scheme == 0 ? DARK : WHITE);
  }

  /** The number of figures at ends of bars, none of which leaves its chart. */
  private static int figuresInside(String chart, int width) {
    int figures = 0;
    for (Matcher figure = FIGURE.matcher(chart); figure.find(); figures++) {
      double end = Double.parseDouble(figure.group(1)) + 6.2 * figure.group(2).length();
      assertThat(end).as(figure.group(2)).isLessThan(width);
    }
    return figures;
  }

  private Path plan(String file, String... options) {
    Path html = scratch.resolve(file);
    List<String> arguments = new ArrayList<>(List.of("plan"));
    arguments.addAll(List.of(options));
    arguments.addAll(List.of("--html", html.toString()));
    CommandLineRun run = CommandLineRun.of(arguments.toArray(String[]::new));
    assertThat(run.err()).isEmpty();
    return html;
  }

  @Test
  void namesFromAnArtifactDoNotRun() throws Exception {
    Shown shown = show(page, 1);

    assertThat(shown.document).contains("<title>ep4j report</title>");
    assertThat(shown.document).doesNotContain("<img");
  }

  /** Shows that the other tests can fail, and that only the programs of the page run. */
  @Test
  void aProgramThatIsNotThePagesOwnIsRefused() throws Exception {
    String html = Files.readString(page).replace("\ndrawAll();", "\ndrawAll(); alert(1);");
    Path changed = Files.writeString(scratch.resolve("changed.html"), html);
    Shown shown = show(changed, 1);

    assertThat(shown.console).contains("Content Security Policy");
    assertThat(MARK.matcher(shown.document).results()).isEmpty();
  }

  private Shown show(Path file, int scheme) throws Exception {
    return show(file, scheme, WIDTH);
  }

  private Shown show(Path file, int scheme, int width) throws Exception {
    Path document = scratch.resolve("document.html");
    Path log = scratch.resolve("log");
    browse(file, scheme, width, document, log, "--dump-dom");
    String console =
        String.join(
            "\n", Files.readAllLines(log).stream().filter(l -> l.contains("CONSOLE")).toList());
    return new Shown(Files.readString(document), console);
  }

  /** The colour of the pixel in the upper left corner, as RGB. */
  private int backgroundOf(Path file, int scheme) throws Exception {
    Path picture = scratch.resolve("picture.png");
    browse(
        file,
        scheme,
        WIDTH,
        scratch.resolve("none"),
        scratch.resolve("log"),
        "--screenshot=" + picture);
    try (DataInputStream in = new DataInputStream(Files.newInputStream(picture))) {
      in.skipNBytes(8);
      while (true) {
        int length = in.readInt();
        byte[] type = in.readNBytes(4);
        byte[] chunk = in.readNBytes(length);
        in.skipNBytes(4);
        if (new String(type, StandardCharsets.US_ASCII).equals("IDAT")) {
          // A row begins with the number of its filter; no filter changes the first pixel.
          byte[] row = new byte[4];
          Inflater inflater = new Inflater();
          inflater.setInput(chunk);
          assertThat(inflater.inflate(row)).isEqualTo(4);
          inflater.end();
          return (row[1] & 0xFF) << 16 | (row[2] & 0xFF) << 8 | row[3] & 0xFF;
        }
      }
    }
  }

  private void browse(Path file, int scheme, int width, Path out, Path log, String action)
      throws Exception {
    List<String> command =
        new ArrayList<>(
            List.of(
                String.valueOf(chromium()),
                "--headless",
                "--no-sandbox",
                "--disable-gpu",
                "--disable-dev-shm-usage",
                "--no-first-run",
                "--user-data-dir=" + scratch.resolve("profile"),
                "--enable-logging=stderr",
                "--window-size=" + width + ",900",
                "--virtual-time-budget=2000",
                "--blink-settings=preferredColorScheme=" + scheme,
                action,
                file.toUri().toString()));
    Process browser =
        new ProcessBuilder(command)
            .redirectOutput(out.toFile())
            .redirectError(log.toFile())
            .start();
    try {
      assertThat(browser.waitFor(60, TimeUnit.SECONDS)).as("Chromium ended").isTrue();
    } finally {
      browser.destroyForcibly();
    }
    assertThat(browser.exitValue()).as(Files.readString(log)).isZero();
  }

  private static @Nullable Path chromium() {
    return Stream.of(System.getenv().getOrDefault("PATH", "").split(":", -1))
        .map(directory -> Path.of(directory, "chromium"))
        .filter(Files::isExecutable)
        .findFirst()
        .orElse(null);
  }
}
