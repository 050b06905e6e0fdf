package org.ep4j.engine.host.buffer;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.assertj.core.api.Assertions.catchThrowableOfType;
import static org.ep4j.engine.host.buffer.Tensors.bf16;

import java.time.Duration;
import java.util.Arrays;
import java.util.function.Consumer;
import org.ep4j.Dispatch;
import org.ep4j.ExpertBuffer;
import org.ep4j.LowLatencyDispatchOptions;
import org.ep4j.config.BufferConfig;
import org.ep4j.error.InvalidArgumentException;
import org.ep4j.error.PeerTimeoutException;
import org.ep4j.group.Group;
import org.ep4j.group.TcpWorld;
import org.ep4j.group.ThreadRanks;
import org.ep4j.routing.Routing;
import org.ep4j.tensor.RowFormat;
import org.ep4j.tensor.Tensor;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

/**
 * One rank's arguments are refused before anything is sent. The others wait: the rank may correct
 * the arguments and call again. If it closes its buffer instead, they learn it at once.
 */
@Timeout(60)
class RefusedArgumentsTest {
  private static final int RANKS = 3;
  private static final int LAST = RANKS - 1;
  private static final int HIDDEN = 128;

  /** Longer than the test may take: no rank may wait for a rank that has given up. */
  private static final Duration LONG = Duration.ofMinutes(10);

  private static final BufferConfig CONFIG =
      BufferConfig.builder()
          .engine("host")
          .hidden(HIDDEN)
          .topK(RANKS)
          .experts(RANKS)
          .highThroughput(4)
          .lowLatency(2)
          .timeout(LONG)
          .build();

  /** How ranks reach each other. */
  enum World {
    THREADS,
    PROCESSES,
    NODES;

    void run(Consumer<ExpertBuffer> ranks) throws Exception {
      BufferConfig config =
          this == NODES ? CONFIG.toBuilder().ranksPerNode(1).wire("tcp").build() : CONFIG;
      if (this == THREADS) {
        ThreadRanks.run(RANKS, group -> open(group, config, ranks));
      } else {
        try (TcpWorld world = new TcpWorld(RANKS)) {
          TcpWorld.inEach(world.joinAll(), group -> open(group, config, ranks));
        }
      }
    }

    private static void open(Group group, BufferConfig config, Consumer<ExpertBuffer> ranks) {
      try (ExpertBuffer buffer = ExpertBuffer.open(group, config)) {
        ranks.accept(buffer);
      }
      group.barrier(LONG); // no rank leaves the group before all have seen what they saw
    }
  }

  private static int[] send(ExpertBuffer buffer, boolean lowLatency, long lastExpert) {
    short[] row = new short[HIDDEN];
    Arrays.fill(row, bf16(buffer.rank() + 1));
    Tensor x = Tensor.ofBf16(row, 1, HIDDEN);
    Routing routing = Routing.of(new long[] {0, 1, lastExpert}, new float[] {1, 1, 1}, RANKS);
    if (lowLatency) {
      return buffer
          .lowLatencyDispatch(
              x, routing, LowLatencyDispatchOptions.builder().format(RowFormat.BF16).build())
          .counts()
          .toIntArray();
    }
    Dispatch received = buffer.dispatch(x, routing);
    return new int[] {Math.toIntExact(received.receivedRows())};
  }

  private static void refuse(ExpertBuffer buffer, boolean lowLatency) {
    assertThatThrownBy(() -> send(buffer, lowLatency, RANKS + 5))
        .isInstanceOf(InvalidArgumentException.class);
  }

  @ParameterizedTest
  @EnumSource(World.class)
  void aRefusedRankMayCorrectItsArgumentsWhileTheOthersWait(World world) throws Exception {
    world.run(
        buffer -> {
          for (boolean lowLatency : new boolean[] {false, true}) {
            if (buffer.rank() == LAST) {
              refuse(buffer, lowLatency);
            }
            assertThat(send(buffer, lowLatency, 2)).containsExactly(RANKS);
          }
        });
  }

  @ParameterizedTest
  @EnumSource(World.class)
  void aRankThatClosesItsBufferAfterARefusalIsNoticedAtOnce(World world) throws Exception {
    for (boolean lowLatency : new boolean[] {false, true}) {
      world.run(
          buffer -> {
            if (buffer.rank() == LAST) {
              refuse(buffer, lowLatency);
              return;
            }
            PeerTimeoutException timeout =
                catchThrowableOfType(PeerTimeoutException.class, () -> send(buffer, lowLatency, 2));
            assertThat(timeout.peer()).isEqualTo(LAST);
            assertThat(timeout.peerDead()).isFalse();
            assertThat(timeout).hasMessageContaining("rank 2 has closed its buffer");
          });
    }
  }
}
