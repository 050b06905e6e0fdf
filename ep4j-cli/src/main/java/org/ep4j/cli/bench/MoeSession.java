package org.ep4j.cli.bench;

import java.lang.foreign.Arena;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.SplittableRandom;
import java.util.concurrent.TimeUnit;
import java.util.function.ToLongFunction;
import java.util.stream.IntStream;
import org.ep4j.ExpertBuffer;
import org.ep4j.bench.CommandAgreement;
import org.ep4j.bench.Timings;
import org.ep4j.cli.ExitCodes;
import org.ep4j.cli.text.OutputFile;
import org.ep4j.cli.text.Progress;
import org.ep4j.cli.text.Style;
import org.ep4j.cli.text.Table;
import org.ep4j.cli.text.Units;
import org.ep4j.config.BufferConfig;
import org.ep4j.config.EngineName;
import org.ep4j.group.Group;
import org.ep4j.moe.DecodeStep;
import org.ep4j.moe.ExpertWeights;
import org.ep4j.moe.LayerTimes;
import org.ep4j.moe.MoeLayer;
import org.ep4j.moe.MoeShape;
import org.ep4j.moe.MoeWeights;
import org.ep4j.routing.ExpertPlacement;
import org.ep4j.routing.ReplicatedPlacement;
import org.ep4j.tensor.DType;
import org.ep4j.tensor.Tensor;
import org.jspecify.annotations.Nullable;

/**
 * A bench of a layer on one rank. Rank 0 prints.
 *
 * @param engine host or cuda
 * @param decode whether passes are decode steps
 * @param fp8 whether tokens and weights are FP8
 * @param artifact JSON file with the results; null for none
 */
record MoeSession(
    String engine,
    MoeShape shape,
    int tokens,
    boolean decode,
    boolean fp8,
    IterationPlan plan,
    @Nullable OutputFile artifact) {
  private static final IterationPlan.Budget BUDGET =
      new IterationPlan.Budget(
          5, 1000, TimeUnit.MILLISECONDS.toNanos(1500), TimeUnit.SECONDS.toNanos(2));

  /** Tokens of a rank that are compared. */
  private static final int COMPARED = 3;

  /** Of the largest element of a result, in FP32. */
  private static final double TOLERANCE = 1e-4;

  /** The same for results that BF16 has rounded on the way. */
  private static final double BF16_TOLERANCE = 0.02;

  /** The same for tokens of FP8, and results of SwiGLU in FP8 on GPUs that multiply it. */
  private static final double FP8_TOLERANCE = 0.1;

  /** Largest element of FP8. */
  private static final double MAX_FP8 = 448;

  /** Untimed calls and replays of a decode step, which has run before. */
  private static final int WARM_UP = 3;

  /** Multiplications and additions of a token in the three matrices of an expert. */
  private static final int OPERATIONS = 6;

  /** More than any matrix has: each row has a seed of its own. */
  private static final long ROWS_OF_A_SEED = 1L << 32;

  private static final String SHARED = "shared";
  private static final String WITHOUT_SHARED = "layer_without_shared";

  /** The parts of a pass, in their order. */
  private static final Map<String, ToLongFunction<LayerTimes>> PARTS = parts();

  private static Map<String, ToLongFunction<LayerTimes>> parts() {
    Map<String, ToLongFunction<LayerTimes>> parts = new LinkedHashMap<>();
    parts.put("route", LayerTimes::route);
    parts.put("dispatch", LayerTimes::dispatch);
    parts.put("experts", LayerTimes::experts);
    parts.put("combine", LayerTimes::combine);
    return parts;
  }

  /** Runs the bench; returns the exit code, equal on all ranks. */
  int run(Group group, Progress progress) {
    var agreement = new CommandAgreement(group);
    var placement = ExpertPlacement.blocks(shape.router().experts(), group.size());
    BufferConfig.Builder config =
        MoeLayer.bufferConfig(engine, shape, ReplicatedPlacement.of(placement), tokens, rows());
    if (decode) {
      config.lowLatency(tokens);
    }
    progress.at("moe: weights");
    try (Arena arena = Arena.ofShared()) {
      Tensor onHost = values(arena, -1 - group.rank(), tokens, shape.hidden(), 1, plainType());
      MoeWeights weights = weights(arena, placement, group.rank());
      return run(group, progress, agreement, config.build(), weights, onHost, arena);
    }
  }

  private int run(
      Group group,
      Progress progress,
      CommandAgreement agreement,
      BufferConfig config,
      MoeWeights weights,
      Tensor onHost,
      Arena arena) {
    try (ExpertBuffer buffer = ExpertBuffer.open(group, config);
        MoeLayer layer = new MoeLayer(buffer, shape, weights);
        DeviceTokens copied = DeviceTokens.of(onHost, buffer.deviceOrdinal());
        DeviceTokens results =
            DeviceTokens.of(
                values(arena, 0, tokens, shape.hidden(), 0, plainType()), buffer.deviceOrdinal())) {
      Tensor x = copied.tokens();
      progress.at("moe: comparison with plain arithmetic");
      Tensor y = pass(layer, x);
      double error = error(onHost, Tensor.of(y.toFloatArray(), y.shape()));
      double tolerance = tolerance();
      if (agreement.max(error <= tolerance ? 0 : 1) > 0) {
        print(group, progress, Style.detect().bad("WRONG RESULTS: error " + error) + "\n");
        return ExitCodes.FAILED;
      }
      progress.at("moe: timing");
      List<LayerTimes> times = new ArrayList<>();
      WarmUp warmUp = time(group, agreement, buffer, layer, x, times);
      Map<String, Double> more = new LinkedHashMap<>();
      if (hasShared()) {
        progress.at("moe: timing without the shared expert");
        more.put(WITHOUT_SHARED, withoutShared(group, agreement, buffer, weights, x));
      }
      if (decode) {
        more.putAll(
            decodeSteps(
                new Steps(group, agreement, buffer.config().timeout(), times.size()),
                layer,
                x,
                results.tokens()));
      }
      report(group, progress, agreement, times, more, warmUp);
      return ExitCodes.OK;
    }
  }

  private boolean hasShared() {
    return shape.sharedIntermediate() > 0;
  }

  /** Leaves the times of the timed passes in {@code times}. */
  private WarmUp time(
      Group group,
      CommandAgreement agreement,
      ExpertBuffer buffer,
      MoeLayer layer,
      Tensor x,
      List<LayerTimes> times) {
    return plan.spend(
        BUDGET,
        agreement,
        (first, count) -> {
          times.clear();
          for (int i = 0; i < count; i++) {
            group.barrier(buffer.config().timeout());
            pass(layer, x);
            times.add(layer.times());
          }
        });
  }

  /** Time of the layer that has no shared expert. */
  private double withoutShared(
      Group group, CommandAgreement agreement, ExpertBuffer buffer, MoeWeights weights, Tensor x) {
    var alone = new MoeShape(shape.hidden(), shape.intermediate(), 0, shape.router());
    var chosen =
        new MoeWeights(weights.router(), weights.bias(), weights.experts(), Optional.empty());
    List<LayerTimes> times = new ArrayList<>();
    try (MoeLayer layer = new MoeLayer(buffer, alone, chosen)) {
      WarmUp _ = time(group, agreement, buffer, layer, x, times);
    }
    return median(agreement, times, this::whole);
  }

  /** A pass: on the host the shared expert comes between the others, on GPUs beside them. */
  private long whole(LayerTimes times) {
    long parts = PARTS.values().stream().mapToLong(part -> part.applyAsLong(times)).sum();
    return onHost() ? parts + times.shared() : parts;
  }

  private DType rows() {
    return fp8 ? DType.FP8_E4M3 : onHost() ? DType.FP32 : DType.BF16;
  }

  private double tolerance() {
    return fp8 ? FP8_TOLERANCE : onHost() && !decode ? TOLERANCE : BF16_TOLERANCE;
  }

  private Tensor pass(MoeLayer layer, Tensor x) {
    return decode ? layer.decode(x) : layer.forward(x);
  }

  /** Times of the host for calls and replays of the same step, whose results are equal. */
  private static Map<String, Double> decodeSteps(Steps steps, MoeLayer layer, Tensor x, Tensor y) {
    Map<String, Double> micros = new LinkedHashMap<>();
    try (DecodeStep step = layer.captureDecode(x, y)) {
      micros.put("call", steps.median(() -> layer.decode(x)));
      micros.put("replay", steps.median(step::replay));
      boolean equal = Arrays.equals(layer.decode(x).toFloatArray(), y.toFloatArray());
      if (steps.agreement.max(equal ? 0 : 1) > 0) {
        throw new IllegalStateException("a replay has other results than decode");
      }
    }
    return micros;
  }

  /**
   * Steps that all ranks begin together.
   *
   * @param limit of the barrier before each
   * @param count timed steps
   */
  private record Steps(Group group, CommandAgreement agreement, Duration limit, int count) {
    /** Median time of the host, of the slowest rank. */
    double median(Runnable step) {
      var nanos = new long[count];
      for (int i = -WARM_UP; i < count; i++) {
        group.barrier(limit);
        long begin = System.nanoTime();
        step.run();
        if (i >= 0) {
          nanos[i] = System.nanoTime() - begin;
        }
      }
      return Timings.longestOf(agreement.numbers(nanos)).median();
    }
  }

  private void report(
      Group group,
      Progress progress,
      CommandAgreement agreement,
      List<LayerTimes> times,
      Map<String, Double> more,
      WarmUp warmUp) {
    Map<String, Double> micros = new LinkedHashMap<>();
    PARTS.forEach((name, part) -> micros.put(name, median(agreement, times, part)));
    if (hasShared()) {
      micros.put(SHARED, median(agreement, times, LayerTimes::shared));
    }
    double layer = median(agreement, times, this::whole);
    double operations =
        (double) OPERATIONS
            * tokens
            * shape.router().topK()
            * shape.hidden()
            * shape.intermediate();
    double gflops = operations * group.size() / micros.getOrDefault("experts", 0.0) / 1e3;
    var table = new Table("part", "time", "% of layer");
    micros.forEach(
        (name, us) -> table.row(name, Units.micros(us), Units.fixed(100 * us / layer, 0)));
    table.row("layer", Units.micros(layer), "");
    more.forEach(
        (name, us) ->
            table.row(
                name.equals(WITHOUT_SHARED) ? "layer without it" : name + ", on the host",
                Units.micros(us),
                Units.fixed(100 * us / layer, 0)));
    Style style = Style.detect();
    String text =
        style.bold(onHost() ? "MoE layer on the host, FP32" : "MoE layer on GPUs, BF16")
            + (fp8 ? ", tokens and weights in FP8" : "")
            + (decode ? ", decoding" : "")
            + "  %d ranks, %d tokens each, hidden %d, intermediate %d, top %d of %d experts%n"
                .formatted(
                    group.size(),
                    tokens,
                    shape.hidden(),
                    shape.intermediate(),
                    shape.router().topK(),
                    shape.router().experts())
            + table.render(style)
            + "experts of all ranks: %s GFLOP/s; %s tokens/s%n"
                .formatted(
                    Units.significant(gflops),
                    Units.significant(1e6 * tokens * group.size() / layer))
            + overlap(micros, more, layer)
            + (warmUp.isIncomplete() ? "the layer was still becoming faster\n" : "")
            + style.good(
                "verified: %d tokens of each rank against plain arithmetic".formatted(compared()))
            + "\n";
    print(group, progress, text);
    if (group.rank() == 0 && artifact != null) {
      Map<String, Object> tree = Artifact.head();
      tree.put("device", engine);
      tree.put("ranks", group.size());
      tree.put("tokens", tokens);
      tree.put("hidden", shape.hidden());
      tree.put("intermediate", shape.intermediate());
      tree.put("experts", shape.router().experts());
      tree.put("topk", shape.router().topK());
      tree.put("shared", shape.sharedIntermediate());
      tree.put("decode", decode);
      tree.put("fp8", fp8);
      tree.put("iterations", times.size());
      tree.put("warmup", warmUp.iterations());
      micros.forEach((name, us) -> tree.put(name + "_us", us));
      tree.put("layer_us", layer);
      more.forEach((name, us) -> tree.put(name + "_us", us));
      tree.put("experts_gflops", gflops);
      Artifact.write(artifact, tree);
    }
  }

  /** What computing the shared expert beside the other parts has won. */
  private String overlap(Map<String, Double> micros, Map<String, Double> more, double layer) {
    Double without = more.get(WITHOUT_SHARED);
    if (without == null) {
      return "";
    }
    double alone = micros.getOrDefault(SHARED, 0.0);
    double added = layer - without;
    return "the shared expert takes %s and adds %s to the layer: %s %% hidden%n"
        .formatted(
            Units.micros(alone),
            Units.micros(Math.max(0, added)),
            Units.fixed(100 * Math.clamp(1 - added / alone, 0, 1), 0));
  }

  private void print(Group group, Progress progress, String text) {
    if (group.rank() == 0) {
      progress.above(() -> Artifact.tables(artifact).print(text));
    }
  }

  private static double median(
      CommandAgreement agreement, List<LayerTimes> times, ToLongFunction<LayerTimes> part) {
    long[] mine = times.stream().mapToLong(part).toArray();
    return Timings.longestOf(agreement.numbers(mine)).median();
  }

  private MoeWeights weights(Arena arena, ExpertPlacement placement, int rank) {
    List<ExpertWeights> own = new ArrayList<>();
    for (int local = 0; local < placement.localExperts(rank); local++) {
      own.add(expert(arena, placement.expertAt(rank, local)));
    }
    return new MoeWeights(router(arena), Optional.empty(), own, sharedExpert(arena));
  }

  private Tensor router(Arena arena) {
    return values(arena, 0, shape.router().experts(), shape.hidden(), 1, plainType());
  }

  private ExpertWeights expert(Arena arena, int number) {
    return expert(arena, number, shape.intermediate());
  }

  /** After the experts of the choice. */
  private Optional<ExpertWeights> sharedExpert(Arena arena) {
    return hasShared()
        ? Optional.of(expert(arena, shape.router().experts(), shape.sharedIntermediate()))
        : Optional.empty();
  }

  private ExpertWeights expert(Arena arena, int number, int intermediate) {
    double inner = 1 / Math.sqrt(shape.hidden());
    double outer = 1 / Math.sqrt(intermediate);
    DType type = fp8 ? DType.FP8_E4M3 : plainType();
    Tensor w1 =
        values(arena, 3L * number + 1, intermediate, shape.hidden(), fp8 ? MAX_FP8 : inner, type);
    Tensor w3 =
        values(arena, 3L * number + 2, intermediate, shape.hidden(), fp8 ? MAX_FP8 : inner, type);
    Tensor w2 =
        values(arena, 3L * number + 3, shape.hidden(), intermediate, fp8 ? MAX_FP8 : outer, type);
    return fp8
        ? new ExpertWeights(
            w1,
            w3,
            w2,
            Optional.of(
                new ExpertWeights.Factors(
                    factors(w1, inner), factors(w3, inner), factors(w2, outer))))
        : new ExpertWeights(w1, w3, w2);
  }

  /** Factors that bring elements of FP8 to a scale. */
  private static Tensor factors(Tensor wide, double scale) {
    int down = Math.toIntExact((wide.size(0) + ExpertWeights.BLOCK - 1) / ExpertWeights.BLOCK);
    int across = Math.toIntExact((wide.size(1) + ExpertWeights.BLOCK - 1) / ExpertWeights.BLOCK);
    var factors = new float[down * across];
    Arrays.fill(factors, (float) (scale / MAX_FP8));
    return Tensor.of(factors, down, across);
  }

  private boolean onHost() {
    return engine.equals(EngineName.HOST);
  }

  /** Element type of what is not FP8. */
  private DType plainType() {
    return onHost() ? DType.FP32 : DType.BF16;
  }

  /** Random values, rounded; outside the heap, which the weights of a layer exceed. */
  private static Tensor values(
      Arena arena, long seed, int rows, int columns, double scale, DType type) {
    Tensor all = Tensor.allocate(arena, type, rows, columns);
    IntStream.range(0, rows)
        .parallel()
        .forEach(
            row -> {
              var random = new SplittableRandom(seed * ROWS_OF_A_SEED + row);
              var values = new float[columns];
              for (int i = 0; i < columns; i++) {
                values[i] = (float) (scale * random.nextDouble(-1, 1));
              }
              Tensor.fromFloats(values, type, 1, columns).copyTo(all.rows(row, row + 1).segment());
            });
    return all;
  }

  private int compared() {
    return Math.min(COMPARED, tokens);
  }

  private static double[] doubles(Tensor row) {
    return IntStream.range(0, Math.toIntExact(row.elements())).mapToDouble(row::getFloat).toArray();
  }

  /** The largest difference from plain arithmetic, by the largest element of the token. */
  private double error(Tensor x, Tensor y) {
    try (Arena arena = Arena.ofShared()) {
      var plain =
          new PlainLayer(
              shape, router(arena), this::wide, sharedExpert(arena).map(MoeSession::wide));
      return error(plain, x, y);
    }
  }

  private ExpertWeights wide(int expert) {
    try (Arena arena = Arena.ofShared()) {
      return wide(expert(arena, expert));
    }
  }

  /** In FP32, on the heap, as dequantised weights are. */
  private static ExpertWeights wide(ExpertWeights weights) {
    return weights.factors().isPresent()
        ? weights.dequantised()
        : new ExpertWeights(wide(weights.w1()), wide(weights.w3()), wide(weights.w2()));
  }

  private static Tensor wide(Tensor matrix) {
    return Tensor.of(matrix.toFloatArray(), matrix.shape());
  }

  private double error(PlainLayer plain, Tensor x, Tensor y) {
    int hidden = shape.hidden();
    double worst = 0;
    for (int token = 0; token < compared(); token++) {
      double[] expected = plain.forward(doubles(x.rows(token, token + 1)));
      double largest = 0;
      double difference = 0;
      for (int h = 0; h < hidden; h++) {
        largest = Math.max(largest, Math.abs(expected[h]));
        // Also catches what is no number.
        double of = Math.abs(y.getFloat((long) token * hidden + h) - expected[h]);
        difference = of <= difference ? difference : of;
      }
      worst = difference / largest <= worst ? worst : difference / largest;
    }
    return worst;
  }
}
