package org.ep4j.cli.bench;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.assertj.core.api.Assertions.within;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.TreeMap;
import org.ep4j.bench.NodeChoice;
import org.ep4j.cli.CliProcess;
import org.ep4j.cli.CommandLineRun;
import org.ep4j.cli.ExitCodes;
import org.ep4j.cli.text.Json;
import org.ep4j.group.Group;
import org.ep4j.group.ThreadRanks;
import org.ep4j.observe.ObservationLog;
import org.ep4j.observe.OperationEvent;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import picocli.CommandLine;
import picocli.CommandLine.Model.CommandSpec;

class BenchTraceTest {
  private static final int ITERATIONS = 5;
  private static final String SMALL =
      " --tokens 12 --hidden 256 --topk 3 --experts 10 --iterations 5 --warmup 1 --buffers 2"
          + " --device host";

  @TempDir Path scratch;

  /** A slice of a trace; times in microseconds. */
  private record Slice(
      String name, String category, int node, double start, double duration, Map<?, ?> arguments) {
    double end() {
      return start + duration;
    }
  }

  @Test
  void everyOperationOfTheTimedIterationsIsASliceInsideThem() throws Exception {
    Path file = scratch.resolve("trace.json");
    CommandLineRun run =
        bench("all --threads --ranks 3 --ranks-per-node 2 --wire inproc --hook --trace " + file);

    assertThat(run.err()).isEmpty();
    assertThat(run.code()).isEqualTo(ExitCodes.OK);
    checkTrace(Files.readString(file), 3, 2);
  }

  @Test
  void ranksThatAreProcessesHandTheirOperationsToTheFirst() throws Exception {
    assumeTrue(
        Boolean.getBoolean("ep4j.full"),
        "processes take seconds of processor time; -Dep4j.full=true runs this test");
    Path file = scratch.resolve("trace.json");
    CommandLineRun run = bench("all --processes --ranks 2 --trace " + file);

    assertThat(run.err()).isEmpty();
    assertThat(run.code()).isEqualTo(ExitCodes.OK);
    checkTrace(Files.readString(file), 2, 2);
  }

  private static void checkTrace(String json, int ranks, int ranksPerNode) throws IOException {
    Map<Integer, List<Slice>> slices = slices(json);
    assertThat(slices).hasSize(ranks);
    slices.forEach(
        (rank, ofRank) -> {
          assertThat(ofRank).allMatch(slice -> slice.node() == rank / ranksPerNode);
          List<Slice> parts =
              ofRank.stream().filter(s -> !s.category().equals("operation")).toList();
          assertThat(parts)
              .extracting(Slice::name)
              .containsExactly(
                  "dispatch, combine bf16",
                  "dispatch, combine fp8",
                  "ll_dispatch bf16",
                  "ll_combine bf16",
                  "ll_pair bf16",
                  "ll_dispatch fp8",
                  "ll_pair fp8");
          assertThat(parts).allMatch(part -> number(part.arguments(), "iterations") == ITERATIONS);
          List<Slice> operations =
              ofRank.stream().filter(s -> s.category().equals("operation")).toList();
          // Ordered, one after the other, and each inside the iterations of one part.
          for (int i = 1; i < operations.size(); i++) {
            assertThat(operations.get(i).start())
                .isGreaterThanOrEqualTo(operations.get(i - 1).end() - 0.001);
          }
          for (Slice part : parts) {
            assertThat(part.start()).isNotNegative();
            List<Slice> inside =
                operations.stream()
                    .filter(o -> o.start() >= part.start() && o.end() <= part.end())
                    .toList();
            long dispatches = inside.stream().filter(o -> o.name().endsWith("dispatch")).count();
            long combines = inside.stream().filter(o -> o.name().endsWith("combine")).count();
            assertThat(dispatches).as(part.name()).isEqualTo(ITERATIONS);
            assertThat(combines).as(part.name()).isEqualTo(ITERATIONS);
          }
          assertThat(operations)
              .allMatch(
                  o -> parts.stream().anyMatch(p -> o.start() >= p.start() && o.end() <= p.end()));
          for (Slice operation : operations) {
            checkArguments(operation, rank, ranks);
          }
          assertThat(operations)
              .filteredOn(o -> o.name().equals("dispatch"))
              .allMatch(
                  o -> number(o.arguments(), "rows") > 0 && number(o.arguments(), "bytes") > 0);
        });
  }

  private static void checkArguments(Slice operation, int rank, int ranks) {
    double sum = 0;
    double longest = Double.MAX_VALUE;
    Map<?, ?> waits = (Map<?, ?>) Objects.requireNonNull(operation.arguments().get("waits_us"));
    for (Map.Entry<?, ?> wait : waits.entrySet()) {
      int peer = Integer.parseInt(String.valueOf(wait.getKey()).substring("rank ".length()));
      assertThat(peer).isBetween(0, ranks - 1).isNotEqualTo(rank);
      double micros = (Double) wait.getValue();
      assertThat(micros).isPositive().isLessThanOrEqualTo(longest);
      longest = micros;
      sum += micros;
    }
    // Few ranks: no wait is left out.
    assertThat(sum).isCloseTo(number(operation.arguments(), "waited_us"), within(0.01));
  }

  @Test
  void operationsBeyondTheLimitAreCountedAndLargeTracesAreWhole() throws Exception {
    int many = 20_000;
    int limit = 2 * 18_000;
    List<List<List<TracedPart>>> all = new ArrayList<>();
    ThreadRanks.run(
        2,
        group -> {
          try (TraceRecorder recorder = TraceRecorder.of(group, limit)) {
            recorder.timed("replaced", 1, () -> operations(group.rank(), 1));
            recorder.timed("part", many, () -> operations(group.rank(), many));
            recorder.timed("replaced", 2, () -> operations(group.rank(), 2));
            operations(group.rank(), 3); // not timed
            List<List<TracedPart>> parts = Objects.requireNonNull(recorder.gather(group));
            synchronized (all) {
              all.add(parts);
            }
          }
        });

    assertThat(all).hasSize(2);
    assertThat(all.getFirst()).isEqualTo(all.getLast());
    for (List<TracedPart> ofRank : all.getFirst()) {
      assertThat(ofRank).extracting(TracedPart::name).containsExactly("replaced", "part");
      assertThat(ofRank).extracting(part -> part.operations().size()).containsExactly(2, 9000);
      assertThat(ofRank).extracting(TracedPart::leftOut).containsExactly(0, many - 9000);
      assertThat(TracedPart.encode(ofRank).length).isGreaterThan(Group.MAX_CONTRIBUTION);
    }
    Map<?, ?> tree =
        (Map<?, ?>)
            Objects.requireNonNull(
                Json.parse(new TraceText(all.getFirst(), NodeChoice.HOSTS).of(Map.of())));
    assertThat((Map<?, ?>) Objects.requireNonNull(tree.get("otherData")))
        .extracting("operations", "operations_left_out")
        .containsExactly(2.0 * 9002, 2.0 * (many - 9000));
  }

  /** Commits events of operations, each of which waits for six ranks. */
  private static void operations(int rank, int count) {
    ObservationLog log = new ObservationLog(rank, 9, new int[] {rank});
    OperationEvent event = new OperationEvent();
    for (int i = 0; i < count; i++) {
      event.begin();
      for (int peer = 2; peer < 8; peer++) {
        log.waited(peer, 1000 + peer);
      }
      event.ended(log, rank, "low-latency dispatch", i);
      log.operationEnded();
    }
  }

  @Test
  void aTraceThatCannotBeIsRefusedBeforeTheMeasurement() throws Exception {
    Path file = scratch.resolve("trace.json");

    assertThat(bench("ht --threads --trace " + scratch.resolve("none/t.json")).err())
        .contains("EP4J-8057: --trace", "directory does not exist");
    assertThat(bench("ht --threads --trace %s --json %s".formatted(file, file)).err())
        .contains("EP4J-1904: --trace names the same file");
    assertThat(bench("ht --threads --trace %s --html %s".formatted(file, file)).err())
        .contains("EP4J-1904: --trace names the same file");
    assertThat(CommandLineRun.of("bench", "ht", "--pressure-test", "1", "--trace", "" + file).err())
        .contains("--trace shows timed iterations");
    assertThat(file).doesNotExist();
  }

  /** The option in a command of its own: without a GPU, bench refuses the CUDA engine before. */
  @Test
  void aTraceOfTheCudaEngineIsRefused() {
    TraceOption option = new TraceOption();
    CommandLine line =
        new CommandLine(
            CommandSpec.create().addMixin("trace", CommandSpec.forAnnotatedObject(option)));
    line.parseArgs("--trace", scratch.resolve("trace.json").toString());
    ResultFiles none = new ResultFiles(null, null, null);

    assertThat(option.file(line.getCommandSpec(), false, true, none)).isNotNull();
    assertThatThrownBy(() -> option.file(line.getCommandSpec(), true, true, none))
        .hasMessageContaining("EP4J-8058")
        .hasMessageContaining("--device host");
  }

  private CommandLineRun bench(String arguments) throws IOException, InterruptedException {
    String[] line = ("bench " + arguments + SMALL).split(" ", -1);
    return arguments.contains("--processes")
        ? CliProcess.run(scratch, line)
        : CommandLineRun.of(line);
  }

  /** The slices of each rank in the order of the file; the names of ranks and nodes are checked. */
  private static Map<Integer, List<Slice>> slices(String json) throws IOException {
    Map<?, ?> tree = (Map<?, ?>) Objects.requireNonNull(Json.parse(json));
    Map<Integer, List<Slice>> slices = new TreeMap<>();
    for (Object item : (List<?>) Objects.requireNonNull(tree.get("traceEvents"))) {
      Map<?, ?> event = (Map<?, ?>) item;
      int rank = (int) number(event, "tid");
      int node = (int) number(event, "pid");
      String name = String.valueOf(event.get("name"));
      Map<?, ?> arguments = (Map<?, ?>) Objects.requireNonNull(event.get("args"));
      if ("M".equals(event.get("ph"))) {
        assertThat(arguments.get("name"))
            .isEqualTo(name.equals("process_name") ? "node " + node : "rank " + rank);
      } else {
        assertThat(event.get("ph")).isEqualTo("X");
        slices
            .computeIfAbsent(rank, _ -> new ArrayList<>())
            .add(
                new Slice(
                    name,
                    String.valueOf(event.get("cat")),
                    node,
                    number(event, "ts"),
                    number(event, "dur"),
                    arguments));
      }
    }
    return slices;
  }

  private static double number(Map<?, ?> fields, String name) {
    return (Double) Objects.requireNonNull(fields.get(name));
  }
}
