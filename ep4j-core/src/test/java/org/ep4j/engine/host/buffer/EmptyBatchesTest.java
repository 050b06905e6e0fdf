package org.ep4j.engine.host.buffer;

import static org.assertj.core.api.Assertions.assertThat;
import static org.ep4j.engine.host.buffer.Tensors.bf16;
import static org.ep4j.engine.host.buffer.Tensors.floats;
import static org.ep4j.engine.host.buffer.Tensors.heads;
import static org.ep4j.engine.host.buffer.Tensors.ints;
import static org.ep4j.engine.host.buffer.Tensors.longs;

import java.lang.foreign.MemorySegment;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import org.ep4j.Combine;
import org.ep4j.CombineOptions;
import org.ep4j.Dispatch;
import org.ep4j.ExpertBuffer;
import org.ep4j.FlatDispatch;
import org.ep4j.GroupedDispatch;
import org.ep4j.config.BufferConfig;
import org.ep4j.config.HighThroughputConfig;
import org.ep4j.config.Layout;
import org.ep4j.group.ThreadRanks;
import org.ep4j.routing.Routing;
import org.ep4j.tensor.DType;
import org.ep4j.tensor.Tensor;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/**
 * A rank without tokens receives those of other ranks. Its tensors lie at address 0, as empty
 * tensors of torch do: they are inputs all the same, and ids and weights arrive.
 */
class EmptyBatchesTest {
  private static final int HIDDEN = 16;
  private static final int[] TOKENS = {3, 0, 2};
  private static final int RANKS = TOKENS.length;

  @ParameterizedTest
  @CsvSource({"3, FLAT", "3, EXPERT_MAJOR", "1, FLAT", "1, EXPERT_MAJOR"})
  void aRankWithoutTokensReceivesAllThatOthersSend(int ranksPerNode, Layout layout) {
    BufferConfig config =
        BufferConfig.builder()
            .hidden(HIDDEN)
            .topK(RANKS)
            .experts(RANKS)
            .highThroughput(HighThroughputConfig.builder().maxTokens(4).layouts(layout).build())
            .ranksPerNode(ranksPerNode)
            .wire("inproc")
            .build();
    ThreadRanks.run(
        RANKS,
        group -> {
          try (ExpertBuffer buffer = ExpertBuffer.open(group, config)) {
            // The second time over what the first has left.
            exchange(buffer, layout, group.rank());
            exchange(buffer, layout, group.rank());
          }
        });
  }

  private static void exchange(ExpertBuffer buffer, Layout layout, int rank) {
    if (layout == Layout.FLAT) {
      FlatDispatch received = buffer.dispatch(rows(rank), routing(rank));
      assertReceived(received);
      List<Long> ids = new ArrayList<>();
      List<Float> weights = new ArrayList<>();
      forEachToken(
          (source, token) -> {
            for (int k = 0; k < RANKS; k++) {
              boolean here = expert(token, k) == rank;
              ids.add(here ? 0L : -1L);
              weights.add(here ? weight(source, token, k) : 0);
            }
          });
      assertThat(longs(received.topkIdx())).containsExactly(array(ids));
      assertThat(floats(received.topkWeights())).containsExactly(floatArray(weights));
      Tensor back = received.topkWeights();
      CombineOptions options = CombineOptions.builder().topkWeights(back).build();
      Combine sums = buffer.combine(received.x(), received.handle(), options);
      assertSums(sums, rank, RANKS);
      for (int i = 0; i < TOKENS[rank] * RANKS; i++) {
        assertThat(floats(sums.topkWeights())[i]).isEqualTo(weight(rank, i / RANKS, i % RANKS));
      }
    } else {
      GroupedDispatch received = buffer.dispatchGrouped(rows(rank), routing(rank));
      assertReceived(received);
      List<Float> weights = new ArrayList<>();
      forEachToken(
          (source, token) -> weights.add(weight(source, token, (rank + RANKS - token) % RANKS)));
      assertThat(Arrays.copyOf(floats(received.rowWeights()), weights.size()))
          .containsExactly(floatArray(weights));
      assertSums(buffer.combine(received.x(), received.handle()), rank, RANKS);
    }
  }

  private static void assertReceived(Dispatch received) {
    List<Float> heads = new ArrayList<>();
    List<Integer> tokens = new ArrayList<>();
    List<Integer> ranks = new ArrayList<>();
    forEachToken(
        (source, token) -> {
          heads.add(value(source, token));
          tokens.add(token);
          ranks.add(source);
        });
    int rows = heads.size();
    assertThat(received.receivedRows()).isEqualTo(rows);
    assertThat(Arrays.copyOf(heads(received.x()), rows)).containsExactly(floatArray(heads));
    assertThat(Arrays.copyOf(ints(received.sourceTokens()), rows))
        .containsExactly(tokens.toArray(Integer[]::new));
    assertThat(Arrays.copyOf(ints(received.sourceRanks()), rows))
        .containsExactly(ranks.toArray(Integer[]::new));
  }

  private static void assertSums(Combine combined, int rank, int copies) {
    float[] sums = heads(combined.x());
    assertThat(sums).hasSize(TOKENS[rank]);
    for (int t = 0; t < sums.length; t++) {
      assertThat(sums[t]).isEqualTo(copies * value(rank, t));
    }
  }

  @FunctionalInterface
  private interface TokenAction {
    void accept(int source, int token);
  }

  private static void forEachToken(TokenAction action) {
    for (int source = 0; source < RANKS; source++) {
      for (int t = 0; t < TOKENS[source]; t++) {
        action.accept(source, t);
      }
    }
  }

  /** Choice k of a token; the expert of a rank has the rank's number. */
  private static int expert(int token, int k) {
    return (k + token) % RANKS;
  }

  private static float value(int source, int token) {
    return 10 * source + token + 1;
  }

  private static float weight(int source, int token, int k) {
    return 100 * source + 10 * token + k + 0.5f;
  }

  private static Tensor rows(int rank) {
    int tokens = TOKENS[rank];
    if (tokens == 0) {
      return Tensor.of(MemorySegment.NULL, DType.BF16, 0, HIDDEN);
    }
    short[] values = new short[tokens * HIDDEN];
    for (int t = 0; t < tokens; t++) {
      Arrays.fill(values, t * HIDDEN, (t + 1) * HIDDEN, bf16(value(rank, t)));
    }
    return Tensor.ofBf16(values, tokens, HIDDEN);
  }

  private static Routing routing(int rank) {
    int tokens = TOKENS[rank];
    if (tokens == 0) {
      return Routing.of(
          Tensor.of(MemorySegment.NULL, DType.INT64, 0, RANKS),
          Tensor.of(MemorySegment.NULL, DType.FP32, 0, RANKS));
    }
    long[] ids = new long[tokens * RANKS];
    float[] weights = new float[ids.length];
    for (int i = 0; i < ids.length; i++) {
      ids[i] = expert(i / RANKS, i % RANKS);
      weights[i] = weight(rank, i / RANKS, i % RANKS);
    }
    return Routing.of(ids, weights, RANKS);
  }

  private static long[] array(List<Long> values) {
    return values.stream().mapToLong(Long::longValue).toArray();
  }

  private static float[] floatArray(List<Float> values) {
    float[] array = new float[values.size()];
    for (int i = 0; i < array.length; i++) {
      array[i] = values.get(i);
    }
    return array;
  }
}
