package org.ep4j.cli.bench;

import static org.assertj.core.api.Assertions.assertThat;

import java.lang.foreign.Arena;
import java.util.List;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.stream.IntStream;
import org.assertj.core.api.InstanceOfAssertFactories;
import org.ep4j.BufferStatistics;
import org.ep4j.bench.CpuTime;
import org.ep4j.bench.NodeChoice;
import org.ep4j.bench.NodeLimits;
import org.ep4j.bench.NodeTraffic;
import org.ep4j.bench.RowCopies;
import org.ep4j.bench.Timings;
import org.ep4j.bench.TrafficVolume;
import org.ep4j.cli.text.Json;
import org.ep4j.cli.text.Style;
import org.ep4j.cli.text.Units;
import org.ep4j.config.Layout;
import org.ep4j.routing.ExpertPlacement;
import org.ep4j.routing.Routing;
import org.ep4j.verify.RoutingGenerator;
import org.ep4j.verify.RoutingKind;
import org.ep4j.verify.WorldRouting;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

class FiguresTest {
  @Test
  void theSlowestRankOfEachIterationCounts() {
    Timings timings = Timings.longestOf(new long[][] {{1000, 9000, 3000}, {4000, 2000, 5000}});

    assertThat(timings.micros()).containsExactly(4, 9, 5);
    assertThat(timings.median()).isEqualTo(5);
    assertThat(timings.min()).isEqualTo(4);
    assertThat(timings.max()).isEqualTo(9);
  }

  @Test
  void quantilesAreThoseOfTheSortedTimes() {
    double[] micros = IntStream.rangeClosed(1, 200).mapToDouble(i -> 201 - i).toArray();
    Timings timings = new Timings(micros);

    assertThat(timings.median()).isEqualTo(100.5);
    assertThat(timings.p99()).isEqualTo(198);
    assertThat(micros[0]).as("the order of iterations is kept").isEqualTo(200);
    assertThat(timings.p999()).as("of 1000 and more").isNaN();
    assertThat(new Timings(new double[99]).p99()).as("of 100 and more").isNaN();
    assertThat(new Timings(new double[1000]).p999()).isZero();
  }

  @Test
  void bandwidthIsBytesOverTheMedian() {
    Result result =
        new Result("dispatch", "bf16", new Timings(new double[] {100}), 10, 2e6, 1e6, 80);

    assertThat(result.logicalGbps()).isEqualTo(20);
    assertThat(result.remoteGbps()).isEqualTo(10);
    assertThat(result.ceilingPercent()).isEqualTo(80);
  }

  @Test
  void aRowSaysHowOftenItWasTimedAndWhetherItWasWarm() {
    BenchReport report =
        new BenchReport(BenchOptionsTest.parse("all", "--device", "host"), 2, true);
    Result cold =
        new Result("dispatch", "bf16", new Timings(new double[] {3, 4, 5}), 10, 2e6, 1e6, 80)
            .after(new WarmUp(7, false));
    Result warm =
        new Result("combine", "bf16", new Timings(new double[120]), 10, 2e6, 1e6, 80)
            .after(new WarmUp(9, true));

    String table = report.table(Style.PLAIN, List.of(cold, warm));
    assertThat(table)
        .containsPattern("dispatch bf16 \\* +3 +4.00 us +- ")
        .containsPattern("combine bf16 +120 +0.00 us +0.00 us ")
        .contains("* no steady state");
    assertThat(table.lines()).allMatch(line -> line.length() <= 100);
    assertThat(report.table(Style.PLAIN, List.of(warm))).doesNotContain("steady");
    assertThat(cold.tree())
        .containsEntry("warmup", 7)
        .containsEntry("steady", false)
        .containsEntry("iterations", 3);
    assertThat(Json.text(cold.tree())).contains("\"p99_us\" : null");
  }

  @Test
  void aTokenCountsOnceForARankAndOnceForEachOfItsExperts() {
    // Experts 0 and 1 are on rank 0, experts 2 and 3 on rank 1.
    WorldRouting world =
        world(
            2,
            4,
            Routing.of(new int[] {0, 1, 0, 2}, new float[4], 2),
            Routing.of(new int[] {3, 2, -1, -1}, new float[4], 2));

    TrafficVolume flat = TrafficVolume.of(List.of(world), Layout.FLAT, 1);
    assertThat(flat.mean()).isEqualTo((2 + 2) / 2.0);
    assertThat(flat.meanRemote()).isEqualTo(1 / 2.0);
    assertThat(flat.max()).isEqualTo(2);

    TrafficVolume grouped = TrafficVolume.of(List.of(world), Layout.EXPERT_MAJOR, 4);
    assertThat(grouped.mean()).isEqualTo((3 + 3) / 2.0);
    assertThat(grouped.meanRemote()).isEqualTo(1 / 2.0);
    assertThat(grouped.max()).isEqualTo(8);
  }

  @Test
  void aTokenCrossesToANodeOnce() {
    // Four ranks of two experts each; ranks 0, 1 and 2 are a node, rank 3 is another.
    WorldRouting world =
        world(
            4,
            8,
            Routing.of(new int[] {0, 6, 2, 4}, new float[4], 2),
            Routing.of(new int[] {6, 7}, new float[2], 2),
            Routing.of(new int[] {-1, 1}, new float[2], 2),
            Routing.of(new int[] {0, 4}, new float[2], 2));

    assertThat(TrafficVolume.crossing(List.of(world), new NodeChoice(3, "auto")))
        .isEqualTo(3 / 4.0);
    assertThat(TrafficVolume.crossing(List.of(world), new NodeChoice(1, "auto")))
        .isEqualTo(7 / 4.0);
    assertThat(TrafficVolume.crossingWithOwnNode(List.of(world), new NodeChoice(3, "auto")))
        .isEqualTo(6 / 4.0);
  }

  @Test
  void lowLatencyRowsCrossToEachRankOfAnotherNode() {
    // Three ranks of two experts each; ranks 0 and 1 are a node, rank 2 is another.
    WorldRouting world =
        world(
            3,
            6,
            Routing.of(new int[] {4, 5, 0, 2}, new float[4], 2),
            Routing.of(new int[] {-1, 1}, new float[2], 2),
            Routing.of(new int[] {0, 1, 2, 4}, new float[4], 2));

    NodeChoice two = new NodeChoice(2, "auto");
    assertThat(TrafficVolume.internodeRows(List.of(world), Layout.FLAT, two))
        .isEqualTo((1 + 2) / 3.0);
    assertThat(TrafficVolume.internodeRows(List.of(world), Layout.EXPERT_MAJOR, two))
        .isEqualTo((2 + 3) / 3.0);
    assertThat(TrafficVolume.internodeRows(List.of(world), Layout.FLAT, NodeChoice.HOSTS)).isZero();
  }

  @Test
  void lowLatencyIsComparedWithTheTimeOfTheWire() {
    Timings timings = new Timings(new double[] {100});
    Result result = new Result("ll_pair", "fp8", timings, 1, 4e6, 4e6, Double.NaN);
    LatencyResult one = new LatencyResult(result, "graph", 128, 12, timings, 2e6, null);
    assertThat(one.cells()).hasSameSizeAs(LatencyResult.COLUMNS);

    LatencyResult bound = one.withLimits(new NodeLimits("copies", 40, 0, 0));
    assertThat(bound.cells()).hasSameSizeAs(LatencyResult.NODE_COLUMNS).endsWith("50.0 us", "2.00");
    assertThat(bound.tree())
        .extractingByKey("nodes", InstanceOfAssertFactories.MAP)
        .containsEntry("scale_out_bytes", 2e6)
        .containsEntry("ceiling_us", 50.0)
        .containsEntry("percent_of_ceiling", 50.0);

    LatencyResult unbound = one.withLimits(new NodeLimits("none", Double.NaN, 0, 0));
    assertThat(unbound.cells()).hasSameSizeAs(LatencyResult.NODE_COLUMNS).endsWith("", "");
  }

  @Test
  void returnedRowsAreSmallerInLogFmt() {
    BenchSettings.LowLatencyVariant plain =
        new BenchSettings.LowLatencyVariant(false, false, false, false, false);
    BenchSettings.LowLatencyVariant logFmt =
        new BenchSettings.LowLatencyVariant(true, false, false, false, false);
    assertThat(plain.returnedBytes(256)).isEqualTo(512);
    assertThat(logFmt.returnedBytes(256)).isEqualTo(320 + 8);
    assertThat(plain.returnedWord()).isEqualTo("bf16");
    assertThat(logFmt.returnedWord()).isEqualTo("logfmt10");
  }

  @Test
  void theRowsOfACeilingAreThoseOfTheDispatch() {
    try (Arena arena = Arena.ofConfined()) {
      RoutingGenerator generator = new RoutingGenerator(RoutingKind.HOT, 5, 32, 4);
      Routing[] routings = new Routing[4];
      for (int rank = 0; rank < routings.length; rank++) {
        routings[rank] = generator.routing(rank, 100, 50, arena);
      }
      WorldRouting world = world(4, 32, routings);
      for (Layout layout : List.of(Layout.FLAT, Layout.EXPERT_MAJOR)) {
        long rows = 0;
        for (int rank = 0; rank < 4; rank++) {
          RowCopies copies = RowCopies.of(world, rank, layout);
          rows += copies.count();
          assertThat(copies.target()).doesNotHaveDuplicates();
          assertThat(IntStream.of(copies.target()).sum())
              .isEqualTo(copies.count() * (copies.count() - 1) / 2);
          assertThat(copies.source()).isSorted();
        }
        assertThat(rows / 4.0).isEqualTo(TrafficVolume.of(List.of(world), layout, 1).mean());
      }
    }
  }

  @Test
  void bytesOfARowIncludeItsScales() {
    assertThat(Payload.BF16.dispatchBytes(7168)).isEqualTo(14336);
    assertThat(Payload.FP8.dispatchBytes(7168)).isEqualTo(7168 + 4 * 56);
    assertThat(Payload.NVFP4.dispatchBytes(7168)).isEqualTo(3584 + 448 + 4);
    assertThat(Payload.FP8.combineBytes(7168)).isEqualTo(14336);
    assertThat(Payload.FP32.combineBytes(7168)).isEqualTo(28672);
  }

  private static WorldRouting world(int ranks, int experts, Routing... routings) {
    return WorldRouting.of(ExpertPlacement.blocks(experts, ranks), List.of(routings));
  }

  @Test
  void trafficBetweenNodesIsComparedWithItsCeiling() {
    Timings call = new Timings(new double[] {1000, 2000, 3000});
    Result result = new Result("dispatch", "bf16", call, 10, 3200, 1600, 16);
    DeviceResult measured =
        new DeviceResult(result, call, call, 8, "pushed", new NodeTraffic(60e6, 90e6, 20e6), null)
            .withLimits(new NodeLimits("copies", 40, 2, 1));

    List<String> columns = List.of(DeviceResult.NODE_COLUMNS);
    String[] cells = measured.cells();
    assertThat(cells).hasSameSizeAs(DeviceResult.NODE_COLUMNS);
    assertThat(cells[columns.indexOf("scale-out\nGB/s")]).isEqualTo(Units.significant(30));
    assertThat(cells[columns.indexOf("ceiling")]).isEqualTo(Units.significant(40));
    assertThat(cells[columns.indexOf("% of it")]).isEqualTo(Units.fixed(75, 0));
    assertThat(cells[columns.indexOf("scale-up\nGB/s")]).isEqualTo(Units.significant(10));
    assertThat(measured.withOwnNode())
        .isEqualTo("dispatch bf16 with 8 SMs " + Units.significant(45));
    assertThat(measured.tree())
        .extractingByKey("nodes", InstanceOfAssertFactories.map(String.class, Object.class))
        .containsEntry("percent_of_ceiling", 75.0)
        .containsEntry("scale_out_gbps_with_own_node", 45.0)
        .containsEntry("proxy_cores", 2.0);
  }

  @Test
  @Timeout(20)
  void cpuTimeIsSplitIntoProxiesAndOthers() throws Exception {
    CpuTime before = CpuTime.now();
    AtomicBoolean over = new AtomicBoolean();
    Thread proxy =
        Thread.ofPlatform()
            .name("ep4j-proxy-0")
            .start(
                () -> {
                  while (!over.get()) {
                    Thread.onSpinWait();
                  }
                });
    try {
      while (CpuTime.now().since(before).proxies() < 20_000_000) {
        Thread.sleep(1);
      }
      // The clock of the process may have a resolution of 10 ms.
      while (CpuTime.now().since(before).process() < 20_000_000) {
        Thread.sleep(1);
      }
    } finally {
      over.set(true);
      proxy.join();
    }
  }

  @Test
  void kernelTimesAreReportedWithTheWholeCall() {
    Timings call = new Timings(new double[] {30, 32, 40});
    Timings kernel = new Timings(new double[] {20, 24, 21});
    Timings host = new Timings(new double[] {5, 6, 7});
    Result result = new Result("combine", "bf16", call, 10, 3200, 1600, 16);
    DeviceResult measured = new DeviceResult(result, kernel, host, 8, "read in place", null, null);

    assertThat(measured.cells()).hasSameSizeAs(DeviceResult.COLUMNS);
    int column = List.of(DeviceResult.COLUMNS).indexOf("kernel");
    assertThat(measured.cells()[column]).isEqualTo(Units.micros(21));
    assertThat(measured.tree())
        .containsEntry("median_us", 32.0)
        .containsEntry("kernel_median_us", 21.0)
        .containsEntry("host_median_us", 6.0)
        .containsEntry("logical_gbps", 0.1)
        .containsEntry("combined_rows", "read in place");
  }

  @Test
  void combinesTellHowTheirRowsReturned() {
    BufferStatistics before = combines(5, 3);
    assertThat(DeviceResult.combined(before, combines(7, 5))).isEqualTo("read in place");
    assertThat(DeviceResult.combined(before, combines(7, 3))).isEqualTo("pushed");
    assertThat(DeviceResult.combined(before, combines(7, 4))).isEqualTo("partly pushed");
    assertThat(DeviceResult.combined(before, before)).isEmpty();
  }

  private static BufferStatistics combines(long all, long inPlace) {
    return new BufferStatistics(0, all, inPlace, 0, 0, 0, 0, 0, 0, 0, 0, List.of());
  }
}
