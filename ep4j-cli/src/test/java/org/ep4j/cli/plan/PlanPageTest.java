package org.ep4j.cli.plan;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.within;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import org.assertj.core.api.InstanceOfAssertFactories;
import org.assertj.core.data.Offset;
import org.ep4j.cli.CommandLineRun;
import org.ep4j.cli.ExitCodes;
import org.ep4j.cli.text.Json;
import org.ep4j.error.ErrorCode;
import org.ep4j.io.SafetensorsWriter;
import org.ep4j.plan.ProfileConstant;
import org.ep4j.tensor.Tensor;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

class PlanPageTest {
  /** Ends elements, attributes and scripts, and reverses text. */
  private static final String HOSTILE =
      "</script><script>alert(1)</script>\"'><img src=x onerror=alert(1)>\\u001b[2J\\u202e@STYLE@";

  @TempDir Path scratch;

  @Test
  void figuresAreThoseOfTheFile() throws IOException {
    Page page = page("--machine", "h100-cx7", "--ranks", "64");

    assertThat(page.chart("terms"))
        .extracting("micros")
        .containsExactly(page.json.get("dispatch_us"), page.json.get("combine_us"));
    for (String operation : List.of("dispatch", "combine")) {
      Map<?, ?> row = page.chart("terms").get(operation.equals("dispatch") ? 0 : 1);
      Map<?, ?> terms = (Map<?, ?>) Objects.requireNonNull(page.json.get(operation + "_terms"));
      assertThat(list(row.get("parts")))
          .filteredOn(part -> !"together".equals(((Map<?, ?>) part).get("role")))
          .extracting("micros")
          .containsExactlyElementsOf(new ArrayList<>(terms.values()));
    }
    assertThat(page.text)
        .contains("2.98 ms", "5.76 ms", "53.7", "54.0", "GB/s (RDMA)", "7.6 GiB")
        .contains("The NIC is the limit: its part alone takes 2.92 ms")
        .contains("A NIC of twice the rate would help most: 1.57 ms, 47 % less")
        .contains("More SMs would not help: 48 SMs in place of 24 take 2.98 ms");
  }

  /** The last part ends at the time; the limit is one of the parts. */
  @ParameterizedTest
  @CsvSource({"ht, 64, 8", "ht, 4, 4", "ll, 64, 8", "ll, 4, 4", "ll, 1, 1"})
  void partsOfAChartEndAtTheTime(String kind, String ranks, String ofNode) throws IOException {
    Page page =
        page("--machine", "h100-cx7", "--kind", kind, "--ranks", ranks, "--ranks-per-node", ofNode);

    for (Map<?, ?> row : page.chart("terms")) {
      double end = 0;
      int limits = 0;
      double overlapping = 0;
      for (Object object : list(row.get("parts"))) {
        Map<?, ?> part = (Map<?, ?>) object;
        limits += Boolean.TRUE.equals(part.get("limit")) ? 1 : 0;
        double to = number(part, "from") + number(part, "micros");
        if ("adds".equals(part.get("role"))) {
          assertThat(number(part, "from")).isGreaterThanOrEqualTo(end - 1e-6);
          end = to;
        } else {
          overlapping = Math.max(overlapping, to);
        }
      }
      assertThat(limits).isEqualTo(1);
      assertThat(Math.max(end, overlapping)).isEqualTo(number(row, "micros"), offset());
    }
  }

  @Test
  void everyPointNamesItsLimitAndTheTableHasTheSameNumbers() throws IOException {
    Page page = page("--machine", "h100-cx7", "--ranks", "64");
    Map<?, ?> dispatch = page.chart("limits").getFirst();

    assertThat(list(dispatch.get("points")))
        .extracting("x")
        .containsExactly(2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0);
    assertThat(list(dispatch.get("points")))
        .extracting("limit")
        .containsExactly("NVLink", "NVLink", "NVLink", "NIC", "NIC", "NIC", "NIC", "NIC");
    assertThat(list(dispatch.get("points")))
        .element(5, InstanceOfAssertFactories.MAP)
        .containsEntry("micros", page.json.get("dispatch_us"));
    assertThat(page.text)
        .contains("What limits the dispatch: NVLink with 2 to 8, NIC with 16 to 256 ranks")
        .contains("64 (planned)", "memory that peers reach", "30.5 GiB");
    CommandLineRun more = CommandLineRun.of("plan", "--machine", "h100-cx7", "--ranks", "256");
    assertThat(more.out()).contains("4.50 ms", "8.69 ms", "30.5 GiB");
    assertThat(page.text).contains("4.50 ms", "8.69 ms");
  }

  /** From there on all further SMs of the GPU shorten the operation by little. */
  @Test
  void theRingIsWhereMoreSmsStopHelping() throws IOException {
    Page page = page("--machine", "h200");
    int combine = (int) number(page.charts("limits").getLast().getLast(), "knee");

    assertThat(combine).isBetween(9, 131);
    double best = micros("combine_us", 132);
    assertThat(micros("combine_us", combine)).isLessThanOrEqualTo(1.05 * best);
    assertThat(micros("combine_us", combine - 1)).isGreaterThan(1.05 * best);
    assertThat(page.text).contains(combine + " in the combine: there more SMs stop helping");
  }

  private double micros(String field, int sms) throws IOException {
    return number(page("--machine", "h200", "--sms", "" + sms).json, field);
  }

  @Test
  void lowLatencyHasNoSms() throws IOException {
    Page page = page("--machine", "h100-cx7", "--kind", "ll", "--ranks", "16");

    assertThat(page.text)
        .contains("low latency", "Fixed and incast are those of the slowest path: here NIC")
        .doesNotContain("Time against SMs");
    assertThat(page.charts("limits")).hasSize(1);
  }

  @Test
  void recordedTokensAreDividedOverOtherRanks() throws IOException {
    Path file = scratch.resolve("routing.safetensors");
    long[] ids = new long[64 * 2];
    for (int i = 0; i < ids.length; i++) {
      ids[i] = i % 2 == 0 ? 0 : 1 + i % 15;
    }
    SafetensorsWriter.write(
        file, Map.of("experts", "16"), Map.of("topk_idx", Tensor.of(ids, 64, 2)));

    Page page = page("--machine", "h200", "--ranks", "4", "--routing", file.toString());

    assertThat(list(page.chart("limits").getFirst().get("points")))
        .extracting("x")
        .containsExactly(2.0, 4.0, 8.0, 16.0);
    assertThat(page.text)
        .contains("Tokens choose experts as 64 recorded tokens did", "divided evenly");
  }

  @Test
  void aPlacementFitsItsRanksOnly() throws IOException {
    Page page = page("--machine", "h200", "--routing", "zipf", "--balance", "--simulate");

    assertThat(page.text)
        .contains("No chart: the placement of the experts is one for 8 ranks")
        .contains("mean / max received rows", "most experts on a rank", "closed form", "busiest")
        .contains("million events");
    assertThat(page.charts("limits")).hasSize(1);
  }

  @Test
  void everyConstantHasItsMeaningAndSource() throws IOException {
    Page page = page("--machine", "gb200-nvl72", "--ranks", "32");

    for (ProfileConstant constant : ProfileConstant.values()) {
      assertThat(page.text)
          .contains(">" + constant.key() + "<", ">" + PlanWords.meaning(constant) + "<");
    }
    assertThat(page.text)
        .contains("Nothing was measured", "docs/plan.md", "What the words mean", "<dt>incast</dt>")
        .contains("data sheet: 72 GPUs of a rack on NVSwitch");
  }

  @Test
  void namesFromAProfileStayText() throws IOException {
    String profile = CommandLineRun.of("plan", "--machine", "b200", "--profile").out();
    String text = HOSTILE.replace("\"", "\\\"");
    String hostile =
        profile
            .replace("\"name\": \"b200\"", "\"name\": \"" + text + "\"")
            .replaceFirst(
                "\"source\": \"[^\"]*\"", "\"source\": \"" + text.replace("\\", "\\\\") + "\"");
    Path file = Files.writeString(scratch.resolve("hostile.json"), hostile);

    String html = page("--machine", file.toString()).text;

    assertThat(html).contains("on &lt;/script&gt;&lt;script&gt;alert(1)", "@STYLE@, 8 ranks");
    assertThat(html).doesNotContain("<script>alert", "<img", "\u001b", "\u202e");
    assertThat(html.split("<script", -1)).hasSize(4);
    assertThat(html).doesNotContainPattern("<(script|img|link|iframe)[^>]*(src|href)=");
  }

  @Test
  void thePageMayBeStandardOutputAndTablesMakeRoom() {
    CommandLineRun run = CommandLineRun.of("plan", "--machine", "h200", "--html", "-");

    assertThat(run.code()).as(run.err()).isEqualTo(ExitCodes.OK);
    assertThat(run.out()).startsWith("<!DOCTYPE html>");
    assertThat(run.err()).contains("Plan for h200");
  }

  @ParameterizedTest
  @CsvSource(
      delimiter = '|',
      value = {
        "--html / | BAD_PAGE_FILE | --html /: is a directory",
        "--html none/page.html | BAD_PAGE_FILE | its directory does not exist",
        "--html - --json - | CONFLICTING_OPTIONS | --html and --json name the same file, -",
        "--html - --balance --placement-out - | CONFLICTING_OPTIONS | --html and --placement-out",
      })
  void badFilesAreRefusedBeforeAnyWork(String options, ErrorCode code, String text) {
    List<String> arguments = new ArrayList<>(List.of("plan", "--machine", "h200"));
    arguments.addAll(List.of(options.split(" ")));

    CommandLineRun run = CommandLineRun.of(arguments.toArray(String[]::new));

    assertThat(run.code()).isEqualTo(ExitCodes.USAGE);
    assertThat(run.err()).contains(code.id(), text);
    assertThat(run.out()).isEmpty();
  }

  /** As the other files of a plan. */
  @Test
  void aProfileIsNoPlanAndWritesNoPage() {
    Path file = scratch.resolve("page.html");

    CommandLineRun run =
        CommandLineRun.of("plan", "--machine", "h200", "--profile", "--html", file.toString());

    assertThat(run.code()).isEqualTo(ExitCodes.OK);
    assertThat(file).doesNotExist();
  }

  /**
   * A page, and the file of the same plan.
   *
   * @param text with blanks in place of those at which a line does not break
   */
  private record Page(String text, Map<?, ?> json, List<Map<?, ?>> specs) {
    /** The rows of each chart of a kind. */
    List<List<Map<?, ?>>> charts(String kind) {
      List<List<Map<?, ?>>> charts = new ArrayList<>();
      for (Map<?, ?> spec : specs) {
        if (kind.equals(spec.get("kind"))) {
          charts.add(maps(spec.get("rows")));
        }
      }
      return charts;
    }

    /** The rows of the first chart of a kind. */
    List<Map<?, ?>> chart(String kind) {
      return charts(kind).getFirst();
    }
  }

  private Page page(String... options) throws IOException {
    Path html = scratch.resolve("page.html");
    Path json = scratch.resolve("plan.json");
    List<String> arguments = new ArrayList<>(List.of("plan"));
    arguments.addAll(List.of(options));
    arguments.addAll(List.of("--html", html.toString(), "--json", json.toString()));
    CommandLineRun run = CommandLineRun.of(arguments.toArray(String[]::new));
    assertThat(run.code()).as(run.err()).isEqualTo(ExitCodes.OK);
    String text = Files.readString(html).replace('\u00a0', ' ');
    String data = text.split("id=\"data\">", -1)[1].split("</script>", -1)[0];
    Map<?, ?> parsed = (Map<?, ?>) Objects.requireNonNull(Json.parse(data));
    return new Page(
        text,
        (Map<?, ?>) Objects.requireNonNull(Json.parse(Files.readString(json))),
        maps(parsed.get("charts")));
  }

  private static List<?> list(@Nullable Object object) {
    return (List<?>) Objects.requireNonNull(object);
  }

  private static List<Map<?, ?>> maps(@Nullable Object object) {
    List<Map<?, ?>> maps = new ArrayList<>();
    list(object).forEach(item -> maps.add((Map<?, ?>) item));
    return maps;
  }

  private static double number(Map<?, ?> fields, String name) {
    return (Double) Objects.requireNonNull(fields.get(name));
  }

  private static Offset<Double> offset() {
    return within(1e-6);
  }
}
