package org.ep4j.cli.bench;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.SplittableRandom;
import java.util.concurrent.TimeUnit;
import java.util.function.ToLongFunction;
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
 * @param artifact JSON file with the results; null for none
 */
record MoeSession(
    String engine, MoeShape shape, int tokens, IterationPlan plan, @Nullable OutputFile artifact) {
  private static final IterationPlan.Budget BUDGET =
      new IterationPlan.Budget(
          5, 1000, TimeUnit.MILLISECONDS.toNanos(1500), TimeUnit.SECONDS.toNanos(2));

  /** Tokens of a rank that are compared. */
  private static final int COMPARED = 3;

  /** Of the largest element of a result, in FP32. */
  private static final double TOLERANCE = 1e-4;

  /** The same for results that BF16 has rounded on the way. */
  private static final double BF16_TOLERANCE = 0.02;

  /** Multiplications and additions of a token in the three matrices of an expert. */
  private static final int OPERATIONS = 6;

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
    Tensor onHost = values(-1 - group.rank(), tokens, shape.hidden(), 1);
    BufferConfig config =
        MoeLayer.bufferConfig(engine, shape, ReplicatedPlacement.of(placement), tokens).build();
    progress.at("moe: weights");
    try (ExpertBuffer buffer = ExpertBuffer.open(group, config);
        MoeLayer layer = new MoeLayer(buffer, shape, weights(placement, group.rank()));
        DeviceTokens copied = DeviceTokens.of(onHost, buffer.deviceOrdinal())) {
      Tensor x = copied.tokens();
      progress.at("moe: comparison with plain arithmetic");
      Tensor y = layer.forward(x);
      double error = error(onHost, Tensor.of(y.toFloatArray(), y.shape()));
      if (agreement.max(error <= (onHost() ? TOLERANCE : BF16_TOLERANCE) ? 0 : 1) > 0) {
        print(group, progress, Style.detect().bad("WRONG RESULTS: error " + error) + "\n");
        return ExitCodes.FAILED;
      }
      progress.at("moe: timing");
      List<LayerTimes> times = new ArrayList<>();
      WarmUp warmUp =
          plan.spend(
              BUDGET,
              agreement,
              (first, count) -> {
                times.clear();
                for (int i = 0; i < count; i++) {
                  group.barrier(buffer.config().timeout());
                  layer.forward(x);
                  times.add(layer.times());
                }
              });
      report(group, progress, agreement, times, warmUp);
      return ExitCodes.OK;
    }
  }

  private void report(
      Group group,
      Progress progress,
      CommandAgreement agreement,
      List<LayerTimes> times,
      WarmUp warmUp) {
    Map<String, Double> micros = new LinkedHashMap<>();
    PARTS.forEach((name, part) -> micros.put(name, median(agreement, times, part)));
    double layer =
        median(
            agreement, times, t -> PARTS.values().stream().mapToLong(p -> p.applyAsLong(t)).sum());
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
    Style style = Style.detect();
    String text =
        style.bold(onHost() ? "MoE layer on the host, FP32" : "MoE layer on GPUs, BF16")
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
      tree.put("iterations", times.size());
      tree.put("warmup", warmUp.iterations());
      micros.forEach((name, us) -> tree.put(name + "_us", us));
      tree.put("layer_us", layer);
      tree.put("experts_gflops", gflops);
      Artifact.write(artifact, tree);
    }
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

  private MoeWeights weights(ExpertPlacement placement, int rank) {
    List<ExpertWeights> own = new ArrayList<>();
    for (int local = 0; local < placement.localExperts(rank); local++) {
      own.add(expert(placement.expertAt(rank, local)));
    }
    return new MoeWeights(router(), Optional.empty(), own, Optional.empty());
  }

  private Tensor router() {
    return values(0, shape.router().experts(), shape.hidden(), 1);
  }

  private ExpertWeights expert(int number) {
    double inner = 1 / Math.sqrt(shape.hidden());
    double outer = 1 / Math.sqrt(shape.intermediate());
    return new ExpertWeights(
        values(3L * number + 1, shape.intermediate(), shape.hidden(), inner),
        values(3L * number + 2, shape.intermediate(), shape.hidden(), inner),
        values(3L * number + 3, shape.hidden(), shape.intermediate(), outer));
  }

  private boolean onHost() {
    return engine.equals(EngineName.HOST);
  }

  /** Random values, on GPUs as BF16 has them. */
  private Tensor values(long seed, int rows, int columns, double scale) {
    var random = new SplittableRandom(seed);
    var values = new float[Math.multiplyExact(rows, columns)];
    for (int i = 0; i < values.length; i++) {
      values[i] = (float) (scale * random.nextDouble(-1, 1));
    }
    return onHost()
        ? Tensor.of(values, rows, columns)
        : Tensor.fromFloats(values, DType.BF16, rows, columns);
  }

  private int compared() {
    return Math.min(COMPARED, tokens);
  }

  /** The largest difference from plain arithmetic, by the largest element of the token. */
  private double error(Tensor x, Tensor y) {
    var plain = new PlainLayer(shape, router(), this::expert);
    int hidden = shape.hidden();
    double worst = 0;
    for (int token = 0; token < compared(); token++) {
      double[] expected = plain.forward(x.rows(token, token + 1).toFloatArray());
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
