package org.ep4j.cuda.fake;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.assertj.core.api.Assertions.tuple;

import java.time.Duration;
import java.util.List;
import jdk.jfr.consumer.RecordedEvent;
import org.ep4j.ExpertBuffer;
import org.ep4j.config.BufferConfig;
import org.ep4j.config.HighThroughputConfig;
import org.ep4j.conformance.world.FlightRecording;
import org.ep4j.cuda.engine.Batch;
import org.ep4j.error.ErrorCode;
import org.ep4j.error.InvalidArgumentException;
import org.ep4j.group.Group;
import org.ep4j.group.ThreadRanks;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** {@code reset()} where one of several ranks of a node is lost: its rails pass to the others. */
@OnFakeDriver
@Timeout(60)
class PartialNodeLossTest {
  private static final Duration LONG = Duration.ofMinutes(10);

  private static BufferConfig.Builder both(String wire) {
    return wired(Batch.config(OneRank.TOKENS).lowLatency(OneRank.TOKENS), wire);
  }

  private static BufferConfig.Builder withRoom(int lostRanks) {
    BufferConfig.Builder config = both("tcp");
    HighThroughputConfig part = config.build().highThroughput().orElseThrow();
    return config.highThroughput(part.toBuilder().lostRanks(lostRanks).build());
  }

  private static BufferConfig.Builder lowLatency() {
    return wired(Batch.config().lowLatency(OneRank.TOKENS), "tcp");
  }

  private static BufferConfig.Builder wired(BufferConfig.Builder config, String wire) {
    return config.timeout(LONG).ranksPerNode(2).wire(wire);
  }

  /** What the live ranks do with the buffer once rank {@code lost} is dead. */
  private interface Survivor {
    void run(ExpertBuffer buffer, int lost);
  }

  private static void lose(int lost, int ranks, BufferConfig config, Survivor survivor) {
    ThreadRanks.run(
        ranks,
        group -> {
          try (ExpertBuffer buffer = ExpertBuffer.open(group, config)) {
            group.barrier(LONG);
            if (group.rank() == lost) {
              group.fail("expert 17 exploded");
              return;
            }
            awaitDeath(group, lost);
            survivor.run(buffer, lost);
          }
        });
  }

  private static void awaitDeath(Group group, int rank) {
    while (group.isAlive(rank)) {
      Thread.onSpinWait();
    }
  }

  private static void continues(ExpertBuffer buffer, int lost) {
    buffer.reset();
    assertThat(buffer.isMasked(lost)).isTrue();
    buffer.barrier();
    // All have what the next reset needs.
    buffer.reset();
    buffer.barrier();
  }

  /** Nodes of two ranks and of one: no rank gets more partners than it had. */
  @ParameterizedTest
  @ValueSource(ints = {0, 1, 2})
  void railsThatFitPassToTheOthers(int lost) {
    lose(lost, 3, both("tcp").build(), PartialNodeLossTest::continues);
  }

  @Test
  void lostLanesAreInTheFlightRecorder() {
    int lost = 2;
    try (FlightRecording recording = new FlightRecording()) {
      lose(lost, 3, both("tcp").build(), PartialNodeLossTest::continues);
      recording.stop();
      List<RecordedEvent> losses =
          recording.events("LaneLoss").stream().filter(e -> e.getInt("rank") != lost).toList();
      assertThat(losses)
          .extracting(e -> e.getInt("rank"), e -> e.getInt("peer"), e -> e.getString("wire"))
          .contains(tuple(0, lost, "tcp"), tuple(1, lost, "tcp"))
          .allMatch(end -> end.toList().get(1).equals(lost));
      assertThat(losses)
          .extracting(e -> e.getInt("rank") + "/" + e.getInt("lane"))
          .doesNotHaveDuplicates();
    }
  }

  /** Rows go straight to the rank that owns an expert. */
  @Test
  void lowLatencyHasNoRails() {
    lose(1, 4, lowLatency().build(), PartialNodeLossTest::continues);
  }

  @Test
  void highThroughputLacksMemoryForMoreRails() {
    lose(
        1,
        4,
        both("tcp").build(),
        (buffer, lost) ->
            assertThatThrownBy(buffer::reset)
                .isInstanceOf(UnsupportedOperationException.class)
                .hasMessageStartingWith(ErrorCode.RESET_UNSUPPORTED.id())
                .hasMessageContaining("rank 0 would exchange tokens with 2 ranks of other nodes")
                .hasMessageContaining("highThroughput.lostRanks is 0; 1 reserves enough"));
  }

  /** One rank of each node: one before and one behind the rank that is left. */
  @ParameterizedTest
  @ValueSource(ints = {0, 3})
  void declaredLossesHaveTheirMemory(int lost) {
    lose(lost, 4, withRoom(1).build(), PartialNodeLossTest::continues);
  }

  @Test
  void aNodeKeepsARank() {
    BufferConfig config = withRoom(1).build();
    ThreadRanks.run(
        3,
        group ->
            assertThatThrownBy(() -> ExpertBuffer.open(group, config))
                .isInstanceOf(InvalidArgumentException.class)
                .hasMessageStartingWith(ErrorCode.BUFFER_SETTING.id())
                .hasMessageContaining("highThroughput.lostRanks = 1; it must be at most 0"));
    assertThatThrownBy(() -> ExpertBuffer.sizes(config, 3))
        .isInstanceOf(InvalidArgumentException.class)
        .hasMessageStartingWith(ErrorCode.BUFFER_SETTING.id());
  }

  /** A stopped process may still write the memory of other nodes. */
  @Test
  void mappedMemoryIsRefused() {
    lose(
        1,
        3,
        both("staged").build(),
        (buffer, lost) ->
            assertThatThrownBy(buffer::reset)
                .isInstanceOf(UnsupportedOperationException.class)
                .hasMessageStartingWith(ErrorCode.RESET_UNSUPPORTED.id())
                .hasMessageContaining("a stopped process may still write over wire 'staged'"));
  }
}
