package org.ep4j.cli.report;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.offset;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.stream.Stream;
import jdk.jfr.Recording;
import jdk.jfr.consumer.RecordedEvent;
import jdk.jfr.consumer.RecordingFile;
import org.ep4j.cli.CommandLineRun;
import org.ep4j.cli.ExitCodes;
import org.ep4j.cli.text.Json;
import org.ep4j.cli.text.Style;
import org.ep4j.observe.MaskEvent;
import org.ep4j.observe.ObservationLog;
import org.ep4j.observe.OperationEvent;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class RecordingReportTest {
  /** Damaged files of a test. */
  private static final int DAMAGES = Boolean.getBoolean("ep4j.full") ? 400 : 12;

  @TempDir Path scratch;
  private Path page;

  @BeforeEach
  void namePage() {
    page = scratch.resolve("page.html");
  }

  @Test
  void recordingsOfSeveralRanksAreMerged() throws Exception {
    CommandLineRun run = report(SampleRecordings.ofThreeRanks(scratch));

    assertThat(run.err()).isEmpty();
    assertThat(run.code()).isEqualTo(ExitCodes.OK);
    assertThat(run.out())
        .contains("6 operations of 3 ranks")
        .containsPattern("combine +3 ")
        .containsPattern("dispatch +3 .* 300 +300.0? KiB|dispatch +3 .* 300 +300 KiB")
        .contains("longest wait: rank 0 for rank 2, 2.00 ms an operation")
        .contains(
            "events: Timeout 1, Abort 2, Mask 2, LaneLoss 1, PathLoss 1, Reset 1, Readmit 1, Compile 1");
    String html = Files.readString(page);
    assertThat(html).contains("<title>ep4j report</title>", "rank0.jfr", "rank2.jfr");
    List<double[]> matrix = heat(html);
    double[][] expected = {{0, 50, 2000}, {100, 0, 2000}, {10, 20, 0}};
    for (int rank = 0; rank < 3; rank++) {
      assertThat(matrix.get(rank))
          .as("waits of rank %d", rank)
          .contains(expected[rank], offset(1e-6));
    }
  }

  @Test
  void whatWentWrongIsATableInTheOrderOfTime() throws Exception {
    report(SampleRecordings.ofThreeRanks(scratch));

    assertThat(Files.readString(page))
        .containsSubsequence(
            "combine 7 waited 1.23 s in phase &#39;rows&#39;: rank 2 is silent",
            "has aborted: rank 2 is silent",
            "notice of rank 1: rank 2 is dead",
            "masks rank 2: silent",
            "counts rank 2 again: by cleanMask()",
            "lane 1 of wire tcp to rank 3: silent",
            "port mlx5_0/1 to rank 3: silent; 2 lanes continue over port mlx5_1/1",
            "continues behind operation 9, without ranks 2, in ",
            "failed: java.lang.IllegalStateException: not all ranks, in ",
            "dispatch.cu for sm_90a, compiled, in ");
  }

  @Test
  void oldRecordingsHaveTheLongestWaitOfEachOperation() throws Exception {
    Path file =
        SampleRecordings.record(
            scratch.resolve("old.jfr"),
            false,
            () -> {
              SampleRecordings.operation(0, "dispatch", 1, 0, 100, 3000);
              SampleRecordings.operation(0, "dispatch", 2, 0, 200, 100);
            });
    report(file);

    assertThat(heat(Files.readString(page)).getFirst())
        .contains(new double[] {0, 100, 1500}, offset(1e-6));
  }

  @Test
  void operationsBeyondTheLimitCountInMeansAndTheirRanksAreShown() throws Exception {
    RecordedJob.Builder builder = new RecordedJob.Builder(2);
    for (Path file : SampleRecordings.ofThreeRanks(scratch)) {
      try (RecordingFile recording = new RecordingFile(file)) {
        while (recording.hasMoreEvents()) {
          RecordedEvent event = recording.readEvent();
          if (event.getEventType().getName().startsWith("org.ep4j.")) {
            builder.add(event);
          }
        }
      }
    }
    RecordedJob job = builder.build();

    assertThat(job.operations()).hasSize(2);
    assertThat(job.leftOut()).isEqualTo(4);
    assertThat(job.ranks()).containsExactly(0, 1, 2);
    assertThat(job.meanWaits())
        .contains(new RecordedJob.Wait(0, 2, 2000), new RecordedJob.Wait(1, 2, 2000));
    RecordingSection section = new RecordingSection(job, "files");
    assertThat(section.text(Style.PLAIN)).contains("2 operations of 3 ranks, and 4 more");
    assertThat(section.html(new Charts())).contains("rank 0", "rank 1", "rank 2");
  }

  /** Numbers of ranks come from the file: they may be nonsense, and must not cost memory. */
  @Test
  void ranksWithLargeNumbersShareCells() throws Exception {
    int large = 1_000_000;
    Path file =
        SampleRecordings.record(
            scratch.resolve("large.jfr"),
            () -> {
              OperationEvent event = new OperationEvent();
              event.begin();
              ObservationLog log = new ObservationLog(0, large, new int[0]);
              log.waited(large - 1, 5_000);
              event.ended(log, large - 1, "dispatch", 1);
            });

    assertThat(report(file).out()).contains("rank 999999 for rank 999999, 5.00 us");
    assertThat(heat(Files.readString(page))).hasSize(64);
  }

  @Test
  void aRecordingStandsBesideARun() throws Exception {
    Path json = SampleRuns.write(scratch.resolve("run.json"), SampleRuns.run(1000, "a processor"));
    Path[] files = SampleRecordings.ofThreeRanks(scratch);
    CommandLineRun run = report(json, files[0]);

    assertThat(run.code()).isEqualTo(ExitCodes.OK);
    assertThat(Files.readString(page))
        .contains("ll_pair bf16, calls, 64 tokens", "Recorded operations", "Waits between ranks");
  }

  @Test
  void aRecordingWithoutOperationsShowsItsEvents() throws Exception {
    Path file =
        SampleRecordings.record(scratch.resolve("f.jfr"), () -> SampleRecordings.failures("x"));

    assertThat(report(file).out()).contains("no operations").contains("Timeout 1");
    assertThat(Files.readString(page)).contains("masks rank 2: x").doesNotContain("<h3>Operations");
  }

  @Test
  void aRecordingWithoutOperationsShowsWaitsOfWindows() throws Exception {
    Path file = SampleRecordings.windows(scratch.resolve("w.jfr"), 1000, 3000);

    assertThat(report(file).out())
        .contains("windows of operations of 1 rank")
        .containsPattern("rank 0 +2 +40 +500 us +20 +100")
        .contains("longest wait: rank 0 for rank 1, 100 us an operation");
    String html = Files.readString(page);
    assertThat(html).contains("<h3>Windows of operations", "<h3>Waits between ranks");
    assertThat(heat(html).getFirst()).contains(new double[] {0, 100}, offset(1e-6));
  }

  @Test
  void textOfARecordingStaysText() throws Exception {
    Path file =
        SampleRecordings.record(
            scratch.resolve("h.jfr"),
            () -> {
              SampleRecordings.operation(0, ReportCommandTest.HOSTILE, 1, 0, 5);
              SampleRecordings.failures(ReportCommandTest.HOSTILE);
            });
    CommandLineRun run = report(file);

    assertThat(run.code()).isEqualTo(ExitCodes.OK);
    assertThat(run.out()).doesNotContain("\u001b", "\u202e");
    String html = Files.readString(page);
    assertThat(html).doesNotContain("<script>document", "<img", "\u001b", "\u202e");
    assertThat(html.split("<script", -1)).hasSize(4);
  }

  @Test
  void otherFilesAreRefused() throws Exception {
    Path text = Files.writeString(scratch.resolve("text.jfr"), "{\"ep4j\" : \"1\"}");
    refused("EP4J-8055", "does not begin as one", text);
    refused("EP4J-8055", "it is empty", Files.createFile(scratch.resolve("empty.jfr")));
    refused("EP4J-8055", "no regular file", Files.createDirectory(scratch.resolve("d.jfr")));
    refused("EP4J-7003", "cannot be read: there is no such file", scratch.resolve("missing.jfr"));
  }

  @Test
  void aRecordingOfAnotherProgramIsRefused() throws Exception {
    Path file = scratch.resolve("other.jfr");
    try (Recording recording = new Recording()) {
      recording.enable("jdk.JVMInformation");
      recording.start();
      recording.stop();
      recording.dump(file);
    }

    refused("EP4J-8056", "holds no events of ep4j", file);
  }

  @Test
  void everyShortenedRecordingIsRefused() throws Exception {
    byte[] whole = Files.readAllBytes(SampleRecordings.ofThreeRanks(scratch)[0]);
    Path file = scratch.resolve("part.jfr");
    for (int length = 1; length < whole.length; length += 1 + whole.length / (2 * DAMAGES)) {
      Files.write(file, Arrays.copyOf(whole, length));
      refused("EP4J-8055", "no whole recording", file);
    }
    byte[] longer = Arrays.copyOf(whole, whole.length + 10);
    Files.write(file, longer);
    refused("EP4J-8055", "begins no chunk", file);
  }

  /**
   * Bytes may be damaged where no check sees it: then the page shows them; nothing else happens.
   */
  @Test
  void aDamagedRecordingIsRefusedOrShown() throws Exception {
    byte[] whole = Files.readAllBytes(SampleRecordings.ofThreeRanks(scratch)[0]);
    Path file = scratch.resolve("damaged.jfr");
    int refused = 0;
    for (int at = 68; at < whole.length; at += 1 + whole.length / DAMAGES) {
      byte[] damaged = whole.clone();
      damaged[at] ^= (byte) 0xFF;
      Files.write(file, damaged);
      CommandLineRun run = report(file);
      assertThat(run.code()).as("byte %d", at).isIn(ExitCodes.OK, ExitCodes.FAILED);
      if (run.code() == ExitCodes.FAILED) {
        refused++;
        assertThat(run.err()).containsPattern("EP4J-805[56]").doesNotContain("\tat ");
      }
    }
    assertThat(refused).isPositive();
  }

  @Test
  void oneTimeOfARankIsNotCountedTwice() throws Exception {
    Path[] files = SampleRecordings.ofThreeRanks(scratch);
    Path copy = Files.copy(files[1], scratch.resolve("copy.jfr"));
    refused("EP4J-8053", "hold the same time of rank 1", files[1], copy);

    // A later recording of the same rank is more of the same job.
    Path later =
        SampleRecordings.record(
            scratch.resolve("later.jfr"),
            () -> SampleRecordings.operation(1, "dispatch", 3, 1, 0, 1));
    assertThat(report(files[1], later).out()).contains("3 operations of 1 rank,");
  }

  @Test
  void oneTimeOfARankIsNotCountedTwiceWithoutOperations() throws Exception {
    Path windows = scratch.resolve("windows.jfr");
    Path around =
        SampleRecordings.record(
            scratch.resolve("around.jfr"), () -> SampleRecordings.windows(windows, 1000, 3000));
    refused("EP4J-8053", "hold the same time of rank 0", windows, around);

    Path mask = scratch.resolve("mask.jfr");
    Path aroundMask =
        SampleRecordings.record(
            scratch.resolve("around-mask.jfr"),
            () -> SampleRecordings.record(mask, () -> MaskEvent.record(0, 2, true, "silent")));
    refused("EP4J-8053", "hold the same time of rank 0", aroundMask, mask);

    Path later = SampleRecordings.windows(scratch.resolve("later.jfr"), 1000);
    assertThat(report(windows, later).out()).containsPattern("rank 0 +3 ");
  }

  /** The operation began in the time of the first recording, before another event of its rank. */
  @Test
  void anOperationBelongsToTheRecordingInWhichItEnded() throws Exception {
    OperationEvent across = new OperationEvent();
    ObservationLog log = new ObservationLog(0, 2, new int[] {0});
    Path first =
        SampleRecordings.record(
            scratch.resolve("first.jfr"),
            () -> {
              across.begin();
              MaskEvent.record(0, 1, true, "silent");
            });
    Path second =
        SampleRecordings.record(
            scratch.resolve("second.jfr"), () -> across.ended(log, 0, "dispatch", 1));

    assertThat(report(first, second).out()).contains("1 operations of 1 rank", "Mask 1");
  }

  @Test
  void anInputIsNotOverwritten() throws Exception {
    Path file = SampleRecordings.ofThreeRanks(scratch)[0];
    CommandLineRun run = CommandLineRun.of("report", "" + file, "--output", "" + file);

    assertThat(run.err()).contains("EP4J-8054", "is the input");
  }

  /** The values of the rows of the only heat map in the data of the page. */
  private static List<double[]> heat(String html) throws IOException {
    String data = html.split("id=\"data\">", -1)[1].split("</script>", -1)[0];
    Map<?, ?> tree = (Map<?, ?>) Objects.requireNonNull(Json.parse(data));
    List<double[]> rows = new ArrayList<>();
    for (Object chart : (List<?>) Objects.requireNonNull(tree.get("charts"))) {
      Map<?, ?> spec = (Map<?, ?>) chart;
      if ("heat".equals(spec.get("kind"))) {
        for (Object row : (List<?>) Objects.requireNonNull(spec.get("rows"))) {
          List<?> values = (List<?>) Objects.requireNonNull(((Map<?, ?>) row).get("values"));
          rows.add(values.stream().mapToDouble(value -> (Double) value).toArray());
        }
      }
    }
    return rows;
  }

  private void refused(String code, String words, Path... files) {
    CommandLineRun run = report(files);

    assertThat(run.err()).contains(code, words).doesNotContain("\tat ");
    assertThat(run.code()).isEqualTo(ExitCodes.FAILED);
    assertThat(run.out()).isEmpty();
    assertThat(page).doesNotExist();
  }

  private CommandLineRun report(Path... files) {
    Stream<String> names = Stream.of(files).map(Path::toString);
    return CommandLineRun.of(
        Stream.of(Stream.of("report"), names, Stream.of("--output", page.toString()))
            .flatMap(words -> words)
            .toArray(String[]::new));
  }
}
