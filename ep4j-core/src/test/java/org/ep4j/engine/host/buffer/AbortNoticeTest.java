package org.ep4j.engine.host.buffer;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.assertj.core.api.Assertions.catchThrowableOfType;
import static org.ep4j.engine.host.buffer.HighThroughputTest.HIDDEN;
import static org.ep4j.engine.host.buffer.HighThroughputTest.config;
import static org.ep4j.engine.host.buffer.HighThroughputTest.constant;
import static org.ep4j.engine.host.buffer.Tensors.heads;

import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.nio.channels.FileChannel;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.time.Duration;
import org.ep4j.ExpertBuffer;
import org.ep4j.LowLatencyDispatch;
import org.ep4j.LowLatencyDispatchOptions;
import org.ep4j.config.BufferConfig;
import org.ep4j.error.Ep4jException;
import org.ep4j.error.ErrorCode;
import org.ep4j.error.PeerTimeoutException;
import org.ep4j.group.ThreadRanks;
import org.ep4j.routing.ExpertPlacement;
import org.ep4j.routing.Routing;
import org.ep4j.tensor.DType;
import org.ep4j.tensor.RowFormat;
import org.ep4j.tensor.Tensor;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/**
 * One rank cannot finish an operation; the other ranks get the reason long before their timeout.
 */
class AbortNoticeTest {
  private static final int RANKS = 4;

  /** Longer than a test may take: no rank may wait that long. */
  private static final Duration LONG = Duration.ofMinutes(10);

  private static final Duration LIMIT = Duration.ofMinutes(1);

  /** One token to an expert of each rank. */
  private static final Routing EVERYWHERE = Routing.of(Tensor.of(new long[] {0, 2, 4, 6}, 1, 4));

  /** Elements of a row for low latency. */
  private static final int WIDE = 128;

  @TempDir Path directory;

  private static BufferConfig.Builder shape() {
    return config().placement(ExpertPlacement.blocks(8, RANKS)).topK(RANKS).timeout(LONG);
  }

  @Test
  void othersOnTheNodeGetTheReason() {
    rowsVanishUnderRank1(RANKS);
  }

  @Test
  void othersOnOtherNodesGetTheReason() {
    rowsVanishUnderRank1(2);
  }

  private void rowsVanishUnderRank1(int ranksPerNode) {
    BufferConfig config = shape().ranksPerNode(ranksPerNode).build();
    ThreadRanks.run(
        RANKS,
        LIMIT,
        group -> {
          try (ExpertBuffer buffer = ExpertBuffer.open(group, config);
              Arena arena = Arena.ofShared()) {
            for (int round = 0; round < 3; round++) {
              if (group.rank() == 1) {
                Tensor gone = vanished(arena, round, HIDDEN);
                assertThatThrownBy(() -> buffer.dispatch(gone, EVERYWHERE))
                    .isInstanceOf(Ep4jException.class)
                    .hasMessageContaining("a page of memory");
              } else {
                PeerTimeoutException timeout =
                    catchThrowableOfType(
                        PeerTimeoutException.class,
                        () -> buffer.dispatch(constant(1, 1), EVERYWHERE));
                assertThat(timeout.peer()).as(timeout.getMessage()).isEqualTo(1);
                assertThat(timeout.peerDead()).isFalse();
                assertThat(timeout)
                    .hasMessageContaining("rank 1 has aborted (dispatch, epoch ")
                    .hasMessageContaining("a page of memory");
              }
              buffer.reset();
              Tensor x = constant(group.rank() + 1, 1);
              assertThat(heads(buffer.dispatch(x, EVERYWHERE).x())).containsExactly(1, 2, 3, 4);
            }
          }
        });
  }

  @Test
  void lowLatencyTellsTheSame() {
    BufferConfig config = shape().hidden(WIDE).lowLatency(1).build();
    ThreadRanks.run(
        RANKS,
        LIMIT,
        group -> {
          Tensor x = Tensor.ofBf16(new short[WIDE], 1, WIDE);
          try (ExpertBuffer buffer = ExpertBuffer.open(group, config);
              Arena arena = Arena.ofShared()) {
            if (group.rank() == 1) {
              Tensor gone = vanished(arena, 0, WIDE);
              assertThatThrownBy(() -> lowLatency(buffer, gone))
                  .isInstanceOf(Ep4jException.class)
                  .hasMessageContaining("a page of memory");
            } else {
              assertThatThrownBy(() -> lowLatency(buffer, x))
                  .isInstanceOf(PeerTimeoutException.class)
                  .hasMessageContaining("rank 1 has aborted")
                  .hasMessageContaining("a page of memory");
            }
            assertThatThrownBy(() -> lowLatency(buffer, x))
                .isInstanceOf(IllegalStateException.class)
                .hasMessageStartingWith(ErrorCode.RESET_NEEDED.id());
            buffer.reset();
            assertThat(lowLatency(buffer, x).counts().getInt(0)).isEqualTo(RANKS);
          }
        });
  }

  private static LowLatencyDispatch lowLatency(ExpertBuffer buffer, Tensor x) {
    LowLatencyDispatchOptions options =
        LowLatencyDispatchOptions.builder().format(RowFormat.BF16).build();
    return buffer.lowLatencyDispatch(x, EVERYWHERE, options);
  }

  /** Rows in a file that has been truncated: reads fault in the middle of the operation. */
  private Tensor vanished(Arena arena, int round, int hidden) throws IOException {
    Path file = directory.resolve("rows-" + round);
    long bytes = DType.BF16.bytes(hidden);
    try (FileChannel channel =
        FileChannel.open(
            file, StandardOpenOption.CREATE, StandardOpenOption.READ, StandardOpenOption.WRITE)) {
      MemorySegment rows = channel.map(FileChannel.MapMode.READ_WRITE, 0, bytes, arena);
      channel.truncate(0);
      return Tensor.of(rows, DType.BF16, 1, hidden);
    }
  }
}
