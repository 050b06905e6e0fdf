package org.ep4j;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.util.function.Consumer;
import org.ep4j.config.BufferConfig;
import org.ep4j.config.EngineName;
import org.ep4j.config.HighThroughputConfig;
import org.ep4j.config.Layout;
import org.ep4j.group.ThreadRanks;
import org.ep4j.routing.Routing;
import org.ep4j.tensor.DType;
import org.ep4j.tensor.RowFormat;
import org.ep4j.tensor.Tensor;
import org.junit.jupiter.api.Test;

class ExpertRowsTest {
  private static final int HIDDEN = 128;

  /** Two ranks with three experts each; experts 1 and 5 get no rows. */
  private static final long[] IDS = {0, 3, 2, 0, 4, -1};

  private static Routing routing() {
    return Routing.of(IDS, new float[] {1, 1, 1, 1, 1, 0}, 2);
  }

  private static Tensor tokens(int rank) {
    float[] x = new float[3 * HIDDEN];
    for (int i = 0; i < x.length; i++) {
      x[i] = 10 * rank + i / HIDDEN + 1;
    }
    return Tensor.fromFloats(x, DType.BF16, 3, HIDDEN);
  }

  private static void onTwoRanks(Consumer<ExpertBuffer> body) {
    ThreadRanks.run(
        2,
        group -> {
          BufferConfig config =
              BufferConfig.builder()
                  .engine(EngineName.HOST)
                  .hidden(HIDDEN)
                  .topK(2)
                  .experts(6)
                  .highThroughput(
                      HighThroughputConfig.builder()
                          .maxTokens(3)
                          .layouts(Layout.EXPERT_MAJOR)
                          .expertAlignment(4)
                          .build())
                  .lowLatency(3)
                  .build();
          try (ExpertBuffer buffer = ExpertBuffer.open(group, config)) {
            body.accept(buffer);
          }
        });
  }

  /** The first element of each row of an expert. */
  private static float[] rows(ExpertRows expert, Tensor x) {
    Tensor part = expert.of(x);
    assertThat(part.shape()).containsExactly(expert.count(), HIDDEN);
    float[] first = new float[Math.toIntExact(expert.count())];
    for (int row = 0; row < first.length; row++) {
      first[row] = part.getFloat((long) row * HIDDEN);
    }
    return first;
  }

  @Test
  void alignedGroupsHaveTheirRowsWithoutPadding() {
    onTwoRanks(
        buffer -> {
          DispatchOptions aligned = DispatchOptions.builder().expertAlignment(4).build();
          GroupedDispatch received =
              buffer.dispatchGrouped(Tokens.of(tokens(buffer.rank())), routing(), aligned);
          var experts = received.expertRows();
          assertThat(experts).extracting(ExpertRows::local).containsExactly(locals(buffer));
          assertThat(experts).extracting(e -> e.first() % 4).containsOnly(0L);
          assertThat(rows(experts.getFirst(), received.x())).containsExactly(firstRows(buffer));
          received.handle().close();
        });
  }

  @Test
  void groupsOfLowLatencyHaveTheirRowsWithoutFreeSpace() {
    onTwoRanks(
        buffer -> {
          LowLatencyDispatchOptions options =
              LowLatencyDispatchOptions.builder().format(RowFormat.BF16).build();
          LowLatencyDispatch received =
              buffer.lowLatencyDispatch(tokens(buffer.rank()), routing(), options);
          var experts = received.expertRows();
          assertThat(experts).extracting(ExpertRows::local).containsExactly(locals(buffer));
          assertThat(rows(experts.getFirst(), received.x()))
              .containsExactlyInAnyOrder(firstRows(buffer));
        });
  }

  @Test
  void rowsByRankHaveNoExperts() {
    onTwoRanks(
        buffer -> {
          LowLatencyDispatchOptions options =
              LowLatencyDispatchOptions.builder().format(RowFormat.BF16).build();
          RankMajorDispatch received =
              buffer.lowLatencyDispatchByRank(tokens(buffer.rank()), routing(), options);
          assertThatThrownBy(received::expertRows).hasMessageContaining("RANK_MAJOR");
        });
  }

  private static Integer[] locals(ExpertBuffer buffer) {
    return buffer.rank() == 0 ? new Integer[] {0, 2} : new Integer[] {0, 1};
  }

  /** Expert 0 has tokens 0 and 1 of both ranks, expert 3 token 0. */
  private static float[] firstRows(ExpertBuffer buffer) {
    return buffer.rank() == 0 ? new float[] {1, 2, 11, 12} : new float[] {1, 11};
  }
}
