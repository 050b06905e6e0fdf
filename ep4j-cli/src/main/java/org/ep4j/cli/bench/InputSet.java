package org.ep4j.cli.bench;

import java.lang.foreign.Arena;
import java.util.ArrayList;
import java.util.List;
import java.util.function.IntUnaryOperator;
import org.ep4j.Tokens;
import org.ep4j.routing.ExpertPlacement;
import org.ep4j.routing.Routing;
import org.ep4j.tensor.DType;
import org.ep4j.tensor.Tensor;
import org.ep4j.verify.HighThroughputOracle;
import org.ep4j.verify.Inputs;
import org.ep4j.verify.RoutingGenerator;
import org.ep4j.verify.WorldRouting;

/**
 * One of the input sets in rotation, see {@code benchmarks/ROUTING.md}: the input of this rank, and
 * the data to compute the input of every rank.
 *
 * @param inputs generates any row of any rank
 * @param tokens rows and scales of this rank
 * @param routing routing of this rank
 * @param world routing of all ranks
 */
record InputSet(Inputs inputs, Tokens tokens, Routing routing, WorldRouting world) {
  /** Separates the random streams of payloads from those of the routing with the same seed. */
  private static final long PAYLOAD_SEED = 0x5DEECE66DL;

  /**
   * Set number {@code set} of rank {@code rank}.
   *
   * @param count tokens of every rank
   */
  static InputSet make(
      BenchSettings settings,
      Payload payload,
      int count,
      int set,
      int rank,
      ExpertPlacement placement,
      Arena arena) {
    return make(settings, payload, _ -> count, set, rank, placement, arena);
  }

  /**
   * The same with another number of tokens on each rank.
   *
   * @param count tokens of a rank
   */
  static InputSet make(
      BenchSettings settings,
      Payload payload,
      IntUnaryOperator count,
      int set,
      int rank,
      ExpertPlacement placement,
      Arena arena) {
    Inputs inputs = new Inputs((settings.seed() + set) ^ PAYLOAD_SEED);
    RoutingGenerator generator = settings.generator(set, placement.ranks());
    Routing routing = generator.routing(rank, count.applyAsInt(rank), arena);
    List<Routing> all = new ArrayList<>();
    try (Arena others = Arena.ofConfined()) {
      for (int r = 0; r < placement.ranks(); r++) {
        all.add(r == rank ? routing : generator.routing(r, count.applyAsInt(r), others));
      }
      WorldRouting world = WorldRouting.of(placement, all);
      return new InputSet(
          inputs, tokens(settings, payload, routing.tokens(), rank, inputs, arena), routing, world);
    }
  }

  private static Tokens tokens(
      BenchSettings settings, Payload payload, int count, int rank, Inputs inputs, Arena arena) {
    int hidden = settings.hidden();
    Tensor x = inputs.tensor(Inputs.Part.PAYLOAD, payload.rows(), rank, count, hidden, arena);
    DType scaleType = payload.scales();
    if (scaleType == null) {
      return Tokens.of(x);
    }
    int columns = payload.scalesOf(hidden);
    Tensor scales = inputs.tensor(Inputs.Part.SCALES, scaleType, rank, count, columns, arena);
    if (payload != Payload.NVFP4) {
      return Tokens.of(x, scales);
    }
    Tensor factors = inputs.tensor(Inputs.Part.GLOBAL_SCALES, DType.FP32, rank, count, 1, arena);
    return Tokens.of(x, scales, Tensor.of(factors.segment(), DType.FP32, count));
  }

  /** The rows of all ranks, for the oracle. */
  HighThroughputOracle.Payload expected(Payload payload, int hidden) {
    DType scaleType = payload.scales();
    int columns = payload.scalesOf(hidden);
    return new HighThroughputOracle.Payload(
        payload.rows(),
        hidden,
        inputs.rows(Inputs.Part.PAYLOAD, payload.rows(), hidden),
        scaleType == null
            ? null
            : new HighThroughputOracle.Blocks(
                scaleType, columns, inputs.rows(Inputs.Part.SCALES, scaleType, columns)),
        payload == Payload.NVFP4 ? inputs.rows(Inputs.Part.GLOBAL_SCALES, DType.FP32, 1) : null);
  }
}
