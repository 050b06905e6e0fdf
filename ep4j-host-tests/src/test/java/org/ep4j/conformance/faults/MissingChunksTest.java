package org.ep4j.conformance.faults;

import static org.assertj.core.api.Assertions.assertThat;

import java.time.Duration;
import java.util.List;
import java.util.Optional;
import org.ep4j.CombineOptions;
import org.ep4j.DispatchOptions;
import org.ep4j.ExpertBuffer;
import org.ep4j.FlatDispatch;
import org.ep4j.Tokens;
import org.ep4j.config.BufferConfig;
import org.ep4j.config.EngineName;
import org.ep4j.config.HighThroughputConfig;
import org.ep4j.error.PeerTimeoutException;
import org.ep4j.group.Group;
import org.ep4j.group.ThreadRanks;
import org.ep4j.routing.ExpertPlacement;
import org.ep4j.routing.Routing;
import org.ep4j.tensor.DType;
import org.ep4j.tensor.Tensor;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.parallel.ResourceLock;

@ResourceLock(SlowLinkWireProvider.NAME)
class MissingChunksTest {
  private static final Duration TIMEOUT = Duration.ofSeconds(2);
  private static final Duration LONG = Duration.ofSeconds(60);
  private static final int HIDDEN = 128;
  private static final int TOKENS = 4;

  /**
   * The rows of rank 1 have arrived, and wait for those of rank 2 to be summed with them. Ranks 1
   * and 2 wait for rank 0 to end its sums, and may reach their deadlines first: rank 0 still names
   * the rank for which it waited.
   */
  @Test
  void aCombineNamesTheRankWhoseRowsAreMissing() {
    SlowLinkWireProvider.slow(
        new SlowLinkWireProvider.Link(2, 0, LONG.toNanos(), TOKENS * 2 * HIDDEN));
    List<Optional<PeerTimeoutException>> ends = ThreadRanks.call(3, MissingChunksTest::rank);

    PeerTimeoutException end = ends.getFirst().orElseThrow();
    assertThat(end.phase()).as(end.getMessage()).isEqualTo("chunks");
    assertThat(end.peer()).as(end.getMessage()).isEqualTo(2);
  }

  private static Optional<PeerTimeoutException> rank(Group group) {
    BufferConfig config =
        BufferConfig.builder()
            .engine(EngineName.HOST)
            .hidden(HIDDEN)
            .topK(3)
            .placement(ExpertPlacement.blocks(3, 3))
            .timeout(TIMEOUT)
            .ranksPerNode(1)
            .wire(SlowLinkWireProvider.NAME)
            .highThroughput(
                HighThroughputConfig.builder().maxTokens(TOKENS).rowDType(DType.BF16).build())
            .build();
    long[] ids = new long[TOKENS * 3];
    for (int i = 0; i < ids.length; i++) {
      ids[i] = i % 3;
    }
    try (ExpertBuffer buffer = ExpertBuffer.open(group, config)) {
      Tensor x = Tensor.ofBf16(new short[TOKENS * HIDDEN], TOKENS, HIDDEN);
      FlatDispatch dispatch =
          buffer.dispatch(
              Tokens.of(x), new Routing(Tensor.of(ids, TOKENS, 3), null), DispatchOptions.DEFAULT);
      group.barrier(LONG);
      if (group.rank() == 2) {
        SlowLinkWireProvider.holdRows();
      }
      group.barrier(LONG);
      try {
        buffer.combine(dispatch.x(), dispatch.handle(), CombineOptions.DEFAULT);
        return Optional.empty();
      } catch (PeerTimeoutException e) {
        return Optional.of(e);
      } finally {
        group.barrier(LONG);
      }
    }
  }
}
