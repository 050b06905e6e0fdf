package org.ep4j.rdma.verbs;

import static org.assertj.core.api.Assertions.assertThat;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.time.Duration;
import java.util.List;
import java.util.SplittableRandom;
import java.util.concurrent.Future;
import java.util.concurrent.FutureTask;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import java.util.stream.LongStream;
import org.ep4j.ExpertBuffer;
import org.ep4j.FlatDispatch;
import org.ep4j.LowLatencyCombineOptions;
import org.ep4j.LowLatencyDispatch;
import org.ep4j.LowLatencyDispatchOptions;
import org.ep4j.config.BufferConfig;
import org.ep4j.config.WireOptions;
import org.ep4j.conformance.world.Available;
import org.ep4j.conformance.world.FlightRecording;
import org.ep4j.conformance.world.TestScale;
import org.ep4j.group.ThreadRanks;
import org.ep4j.rdma.softverbs.SoftVerbs;
import org.ep4j.routing.Routing;
import org.ep4j.tensor.DType;
import org.ep4j.tensor.RowFormat;
import org.ep4j.tensor.Tensor;
import org.junit.jupiter.api.Assumptions;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

/**
 * Cables that are pulled, lose packets or delay them, queue pairs that break, and ranks that come
 * late while an engine sends rows over two ports with four queue pairs each. One port keeps its
 * cable and a queue pair: all operations end with the right rows. Two ranks of two nodes; each
 * token goes to the experts of both and comes back as the sum of both rows. Subclasses name the
 * engine.
 *
 * <p>System properties: {@code ep4j.seed} repeats a run, {@code ep4j.campaigns} is the number of
 * buffers whose paths have faults. Campaign n has the seed plus n.
 */
abstract class FaultyPathsKit {
  private static final int HIDDEN = 1024;
  private static final int TOKENS = 512;
  private static final int LOW_LATENCY_TOKENS = 16;
  private static final int ROUNDS = 24;

  /** Of the second rail, which may be pulled. */
  private static final List<String> PULLED = List.of("a1", "b1");

  private static final List<String> PORTS = List.of("a0", "b0", "a1", "b1");

  /** Packets are sent again from the oldest lost one: more would take minutes. */
  private static final int MAX_LOSS = 2;

  private static final int MAX_DELAY_MICROS = 300;
  private static final int MAX_LATE_MILLIS = 1000;

  /** Of each port. */
  private static final int QUEUE_PAIRS = 4;

  private static final Duration TIMEOUT = Duration.ofMinutes(2);

  /** More than the timeout of QueuePairFailover. */
  private static final int LATE_MILLIS = 6000;

  /** In a campaign a rank comes late in one of so many rounds. */
  private static final int SELDOM = 12;

  /** The engine, as in {@link BufferConfig#engine()}. */
  abstract String engine();

  /** Whether ports read and write memory of GPUs. */
  boolean gpuDirect() {
    return false;
  }

  /** Changes cables and queue pairs before a round. */
  private interface Faults {
    void before(int round) throws Exception;
  }

  /** The rank that comes late in a round. */
  private interface Pauses {
    Pause in(int round, SplittableRandom random);
  }

  /** A rank that does nothing for a while before it dispatches or before it combines. */
  private record Pause(int rank, boolean beforeCombine, int millis) {
    private static final Pause NONE = new Pause(-1, false, 0);

    static Pause draw(SplittableRandom random) {
      return new Pause(random.nextInt(2), random.nextBoolean(), random.nextInt(MAX_LATE_MILLIS));
    }

    void before(boolean combine, ExpertBuffer buffer) {
      if (buffer.rank() == rank && combine == beforeCombine) {
        LockSupport.parkNanos(TimeUnit.MILLISECONDS.toNanos(millis));
      }
    }
  }

  @Test
  void aPulledCableIsReportedAndLosesNoRow() throws Exception {
    SplittableRandom random = new SplittableRandom(TestScale.seed());
    String port = PULLED.get(random.nextInt(PULLED.size()));
    assertThat(ranksThatLostPaths(random, "down", port)).contains(0, 1);
  }

  @Test
  void aBrokenQueuePairIsReportedAndLosesNoRow() throws Exception {
    Assumptions.assumeTrue(SoftVerbs.isSelected(), "only emulated devices break a queue pair");
    SplittableRandom random = new SplittableRandom(TestScale.seed());
    String port = PORTS.get(random.nextInt(PORTS.size()));
    String pair = String.valueOf(1 + random.nextInt(QUEUE_PAIRS));
    assertThat(ranksThatLostPaths(random, "pair", pair, port)).containsExactlyInAnyOrder(0, 1);
  }

  /** Runs a buffer with one fault of the middle third. No lane may fail. */
  private List<Integer> ranksThatLostPaths(SplittableRandom random, String... fault)
      throws Exception {
    Available.orSkip(engine());
    int faultBefore = ROUNDS / 3 + random.nextInt(ROUNDS / 3);
    try (FlightRecording recording = new FlightRecording()) {
      run(
          random.nextLong(),
          (_, _) -> Pause.NONE,
          round -> {
            if (round == faultBefore) {
              PairOfWires.link(fault);
            }
          });
      recording.stop();
      assertThat(recording.events("LaneLoss")).isEmpty();
      return recording.events("PathLoss").stream().map(loss -> loss.getInt("rank")).toList();
    }
  }

  /** A rank is later than a lost queue pair would be noticed, before a dispatch and a combine. */
  @Test
  void aRankThatComesLateLosesNoPath() throws Exception {
    Available.orSkip(engine());
    try (FlightRecording recording = new FlightRecording()) {
      run(
          TestScale.seed(),
          (round, _) ->
              round == 1 || round == 2 ? new Pause(round % 2, round == 2, LATE_MILLIS) : Pause.NONE,
          round -> {});
      recording.stop();
      assertThat(recording.events("LaneLoss")).isEmpty();
      assertThat(recording.events("PathLoss")).isEmpty();
    }
  }

  static LongStream seedsOfCampaigns() {
    long campaigns = Integer.getInteger("ep4j.campaigns", TestScale.of(1, 20));
    return LongStream.range(0, campaigns).map(campaign -> TestScale.seed() + campaign);
  }

  /** Each campaign has a time limit of its own. */
  @ParameterizedTest(name = "-Dep4j.seed={0} -Dep4j.campaigns=1")
  @MethodSource("org.ep4j.rdma.verbs.FaultyPathsKit#seedsOfCampaigns")
  void faultsOfPathsLoseNoRow(long seed) throws Exception {
    Available.orSkip(engine());
    SplittableRandom random = new SplittableRandom(seed);
    run(
        random.nextLong(),
        (_, pauses) -> pauses.nextInt(SELDOM) == 0 ? Pause.draw(pauses) : Pause.NONE,
        round -> change(random));
  }

  private static void change(SplittableRandom random) throws Exception {
    String port = PORTS.get(random.nextInt(PORTS.size()));
    switch (random.nextInt(9)) {
      case 0 -> PairOfWires.link("down", PULLED.get(random.nextInt(PULLED.size())));
      case 1, 2 -> PairOfWires.link("loss", String.valueOf(random.nextInt(1 + MAX_LOSS)), port);
      case 3, 4 ->
          PairOfWires.link("delay", String.valueOf(random.nextInt(1 + MAX_DELAY_MICROS)), port);
      case 5 -> PairOfWires.link("clear", port);
      case 6 -> {
        // Both ends of the first rail keep their first queue pair, which connects them.
        int which = 1 + random.nextInt(PULLED.contains(port) ? QUEUE_PAIRS : QUEUE_PAIRS - 1);
        if (SoftVerbs.isSelected()) {
          PairOfWires.link("pair", String.valueOf(which), port);
        }
      }
      default -> {
        // Stays as it is.
      }
    }
  }

  /**
   * A buffer of two ranks; its paths change while a round runs.
   *
   * @param pauses the late rank of a round; both ranks draw the same
   */
  private void run(long seed, Pauses pauses, Faults faults) throws Exception {
    BufferConfig config =
        BufferConfig.builder()
            .hidden(HIDDEN)
            .topK(2)
            .experts(2)
            .highThroughput(TOKENS)
            .lowLatency(LOW_LATENCY_TOKENS)
            .engine(engine())
            .ranksPerNode(1)
            .wire("verbs-2x4")
            .wireOptions(WireOptions.builder().gpuDirect(gpuDirect()).build())
            .timeout(TIMEOUT)
            .build();
    try {
      ThreadRanks.run(
          2,
          group -> {
            // Both ranks draw the same operations and pauses.
            SplittableRandom random = new SplittableRandom(seed);
            try (ExpertBuffer buffer = ExpertBuffer.open(group, config)) {
              for (int round = 0; round < ROUNDS; round++) {
                group.barrier(TIMEOUT);
                Future<?> change = group.rank() == 0 ? started(faults, round) : null;
                Pause pause = pauses.in(round, random);
                if (random.nextBoolean()) {
                  highThroughput(buffer, round, pause);
                } else {
                  lowLatency(buffer, round, pause);
                }
                if (change != null) {
                  change.get(1, TimeUnit.MINUTES);
                }
              }
            }
          });
    } finally {
      for (String port : PORTS) {
        PairOfWires.link("clear", port);
        PairOfWires.link("up", port);
      }
    }
  }

  private static Future<?> started(Faults faults, int round) {
    var task =
        new FutureTask<>(
            () -> {
              faults.before(round);
              return true;
            });
    Thread.ofPlatform().start(task);
    return task;
  }

  private static void highThroughput(ExpertBuffer buffer, int round, Pause pause) {
    pause.before(false, buffer);
    FlatDispatch dispatch = buffer.dispatch(rows(buffer.rank(), round, TOKENS, 1), routing(TOKENS));
    MemorySegment received = onHost(dispatch.x());
    long half = received.byteSize() / 2;
    for (int source = 0; source < 2; source++) {
      assertSame(
          "round " + round + ", rows of rank " + source,
          received.asSlice(source * half, half),
          rows(source, round, TOKENS, 1));
    }
    pause.before(true, buffer);
    Tensor sums = buffer.combine(dispatch.x(), dispatch.handle()).x();
    assertSame("round " + round, onHost(sums), rows(buffer.rank(), round, TOKENS, 2));
  }

  private static void lowLatency(ExpertBuffer buffer, int round, Pause pause) {
    pause.before(false, buffer);
    Routing routing = routing(LOW_LATENCY_TOKENS);
    LowLatencyDispatch dispatch =
        buffer.lowLatencyDispatch(
            rows(buffer.rank(), round, LOW_LATENCY_TOKENS, 1),
            routing,
            LowLatencyDispatchOptions.builder().format(RowFormat.BF16).build());
    pause.before(true, buffer);
    Tensor sums =
        buffer
            .lowLatencyCombine(
                dispatch.x(), routing, dispatch.handle(), LowLatencyCombineOptions.DEFAULT)
            .x();
    assertSame("round " + round, onHost(sums), rows(buffer.rank(), round, LOW_LATENCY_TOKENS, 2));
  }

  private static MemorySegment onHost(Tensor tensor) {
    return tensor.onHost(Arena.ofAuto()).segment();
  }

  private static void assertSame(String what, MemorySegment actual, Tensor expected) {
    assertThat(actual.mismatch(expected.segment())).as(what).isEqualTo(-1);
  }

  /** Rows that differ by rank, round and token, exact in BF16, as twice these are. */
  private static Tensor rows(int rank, int round, int tokens, int factor) {
    float[] values = new float[tokens * HIDDEN];
    for (int i = 0; i < values.length; i++) {
      values[i] = factor * (1 + rank * 64 + (i / HIDDEN + i + 7 * round) % 61);
    }
    return Tensor.fromFloats(values, DType.BF16, tokens, HIDDEN);
  }

  private static Routing routing(int tokens) {
    int[] experts = new int[2 * tokens];
    float[] weights = new float[2 * tokens];
    for (int i = 0; i < experts.length; i++) {
      experts[i] = i % 2;
      weights[i] = 1;
    }
    return Routing.of(experts, weights, 2);
  }
}
