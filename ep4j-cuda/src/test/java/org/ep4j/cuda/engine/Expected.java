package org.ep4j.cuda.engine;

import java.lang.foreign.Arena;
import java.util.ArrayList;
import java.util.List;
import org.ep4j.Combine;
import org.ep4j.CombineOrder;
import org.ep4j.Dispatch;
import org.ep4j.DispatchOptions;
import org.ep4j.Sizing;
import org.ep4j.config.Layout;
import org.ep4j.routing.ExpertPlacement;
import org.ep4j.routing.Routing;
import org.ep4j.tensor.DType;
import org.ep4j.tensor.Tensor;
import org.ep4j.verify.CombineOracle;
import org.ep4j.verify.CombineOracle.Terms;
import org.ep4j.verify.HighThroughputOracle;
import org.ep4j.verify.HighThroughputOracle.Payload;
import org.ep4j.verify.Inputs;
import org.ep4j.verify.Inputs.Part;
import org.ep4j.verify.WorldRouting;

/** Expected results of operations on the batches of all ranks with one seed, byte for byte. */
final class Expected {
  private final WorldRouting world;
  private final Inputs inputs;
  private final Layout layout;
  private final int alignment;

  Expected(int ranks, int tokens, long seed, Layout layout, int alignment) {
    this.layout = layout;
    this.alignment = alignment;
    inputs = new Inputs(seed);
    try (Arena arena = Arena.ofConfined()) {
      List<Routing> routings = new ArrayList<>();
      for (int r = 0; r < ranks; r++) {
        routings.add(Batch.routing(r, tokens, seed, arena));
      }
      world = WorldRouting.of(ExpertPlacement.blocks(Batch.EXPERTS, ranks), routings);
    }
  }

  /** Throws unless {@code rank} received the rows of the batches. */
  void checkDispatch(int rank, Dispatch dispatch) {
    Payload payload =
        Payload.of(DType.BF16, Batch.HIDDEN, inputs.rows(Part.PAYLOAD, DType.BF16, Batch.HIDDEN));
    DispatchOptions.Builder options = DispatchOptions.builder().expertAlignment(alignment);
    if (dispatch.rows() != new HighThroughputOracle(world).rows(rank, layout, alignment)) {
      options.sizing(Sizing.atMost(dispatch.rows()));
    }
    new HighThroughputOracle(world).checkDispatch(rank, layout, dispatch, payload, options.build());
  }

  /** Writes the answers of the experts of {@code rank}. */
  void fillAnswers(Tensor y, int rank) {
    inputs.fill(y, Part.EXPERT_OUTPUT, rank);
  }

  /** Throws unless {@code rank} received the sums of the answers. */
  void checkCombine(int rank, Combine combine, CombineOrder order) {
    Terms terms =
        new Terms(
            DType.BF16,
            Batch.HIDDEN,
            inputs.rows(Part.EXPERT_OUTPUT, DType.BF16, Batch.HIDDEN),
            true,
            false,
            order,
            null,
            null,
            null);
    new CombineOracle(world, layout, alignment).checkCombine(rank, combine, terms);
  }
}
