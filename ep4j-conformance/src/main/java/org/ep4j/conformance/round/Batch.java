package org.ep4j.conformance.round;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.ArrayList;
import java.util.List;
import java.util.SplittableRandom;
import org.ep4j.routing.ExpertPlacement;
import org.ep4j.routing.Routing;
import org.ep4j.tensor.DType;
import org.ep4j.tensor.Tensor;
import org.ep4j.verify.RoutingGenerator;
import org.ep4j.verify.RoutingKind;
import org.ep4j.verify.WorldRouting;
import org.jspecify.annotations.Nullable;

/**
 * The tokens of all ranks in one operation.
 *
 * @param seed of all values that the ranks derive from it
 * @param experts number of experts, as an option of the operation
 * @param routings one per rank
 * @param world the same for the oracle
 */
public record Batch(long seed, int experts, List<Routing> routings, WorldRouting world) {
  private static final int[] MASKED_OF_256 = {0, 0, 0, 20, 128};

  /** Draws the same batch on every rank. */
  static Batch draw(
      SplittableRandom shared, Shape shape, int maxTokens, boolean weighted, Arena arena) {
    long seed = shared.nextLong();
    int wanted = experts(shared, shape);
    ExpertPlacement placement =
        wanted == 0 || wanted == shape.placement().experts()
            ? shape.placement()
            : ExpertPlacement.blocks(wanted, shape.ranks());
    int experts = placement.experts();
    int maxTopK = Math.min(experts, shape.topK());
    int topK = shared.nextInt(4) == 0 ? shared.nextInt(1, maxTopK + 1) : maxTopK;
    boolean empty = shared.nextInt(16) == 0;
    int manner = shared.nextInt(9);
    int masked = manner == 8 ? 256 : MASKED_OF_256[shared.nextInt(MASKED_OF_256.length)];
    int favourite = manner == 7 ? shared.nextInt(experts) : -1;
    RoutingKind kind = RoutingKind.values()[manner % RoutingKind.values().length];
    RoutingGenerator generator = new RoutingGenerator(kind, seed, experts, topK);
    List<Routing> routings = new ArrayList<>();
    for (int rank = 0; rank < shape.ranks(); rank++) {
      int tokens = empty ? 0 : tokens(new SplittableRandom(seed + rank), maxTokens);
      Routing routing = generator.routing(rank, tokens, masked, arena);
      Tensor idx = favourite < 0 ? routing.topkIdx() : onlyExpert(favourite, tokens, topK);
      routings.add(new Routing(idx, weighted ? routing.topkWeights() : null));
    }
    return new Batch(seed, wanted, routings, WorldRouting.of(placement, routings));
  }

  /** Often those of the buffer, 0; else any number that leaves each rank at most as many. */
  private static int experts(SplittableRandom shared, Shape shape) {
    boolean ofBuffer = shared.nextInt(3) != 0;
    int fewest = Integer.MAX_VALUE;
    for (int r = 0; r < shape.ranks(); r++) {
      fewest = Math.min(fewest, shape.placement().localExperts(r));
    }
    return ofBuffer || fewest == 0 ? 0 : shape.ranks() * shared.nextInt(1, fewest + 1);
  }

  private static int tokens(SplittableRandom random, int max) {
    return switch (random.nextInt(6)) {
      case 0 -> 0;
      case 1 -> max;
      default -> random.nextInt(max + 1);
    };
  }

  private static Tensor onlyExpert(int expert, int tokens, int topK) {
    long[] idx = new long[tokens * topK];
    for (int i = 0; i < idx.length; i++) {
      idx[i] = i % topK == topK - 1 ? expert : -1;
    }
    return Tensor.of(idx, tokens, topK);
  }

  /** This rank's routing in any form that a caller may use: INT64 or INT32, in any memory. */
  Routing routing(RankContext in, Arena arena) {
    Routing routing = routings.get(in.rank());
    Tensor idx = routing.topkIdx();
    if (in.own().nextBoolean()) {
      int[] narrow = new int[(int) idx.elements()];
      for (int i = 0; i < narrow.length; i++) {
        narrow[i] = (int) idx.getLong(i);
      }
      idx = Tensor.of(narrow, idx.shape());
    }
    Tensor weights = routing.topkWeights();
    return new Routing(placed(idx, in, arena), weights == null ? null : placed(weights, in, arena));
  }

  private static Tensor placed(Tensor tensor, RankContext in, Arena arena) {
    Tensor copy = in.empty(arena, tensor.dtype(), tensor.shape());
    copy.copyFrom(tensor.segment());
    return copy;
  }

  /** A tensor in host memory: native, with any alignment, or on the heap. */
  static Tensor empty(DType dtype, SplittableRandom own, Arena arena, long... shape) {
    long elements = 1;
    for (long extent : shape) {
      elements *= extent;
    }
    long bytes = dtype.bytes(elements);
    @Nullable MemorySegment memory =
        switch (own.nextInt(4)) {
          case 0 -> MemorySegment.ofArray(new byte[(int) bytes]);
          case 1 -> arena.allocate(bytes + 16, 64).asSlice(8, bytes);
          default -> arena.allocate(bytes + 1, 64);
        };
    return Tensor.of(memory, dtype, shape);
  }
}
