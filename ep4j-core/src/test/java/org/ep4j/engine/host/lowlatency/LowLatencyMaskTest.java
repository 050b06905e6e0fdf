package org.ep4j.engine.host.lowlatency;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.assertj.core.api.Assertions.catchThrowableOfType;
import static org.ep4j.engine.host.buffer.Tensors.bf16;
import static org.ep4j.engine.host.buffer.Tensors.heads;
import static org.ep4j.engine.host.buffer.Tensors.ints;

import java.lang.foreign.ValueLayout;
import java.time.Duration;
import java.util.Arrays;
import java.util.concurrent.CyclicBarrier;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import org.ep4j.ExpertBuffer;
import org.ep4j.LowLatencyCombine;
import org.ep4j.LowLatencyCombineOptions;
import org.ep4j.LowLatencyDispatch;
import org.ep4j.LowLatencyDispatchOptions;
import org.ep4j.config.BufferConfig;
import org.ep4j.config.LowLatencyConfig;
import org.ep4j.error.ErrorCode;
import org.ep4j.error.PeerTimeoutException;
import org.ep4j.group.Group;
import org.ep4j.group.ThreadRanks;
import org.ep4j.routing.Routing;
import org.ep4j.tensor.Tensor;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.parallel.Execution;
import org.junit.jupiter.api.parallel.ExecutionMode;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/**
 * Ranks that are silent, dead or masked. Every rank has one expert and one token; the token goes to
 * all experts with weight 1 and holds the number of its rank, expert e returns 16 * (e + 1) + its
 * input.
 */
@Execution(ExecutionMode.CONCURRENT) // waits for silent ranks
class LowLatencyMaskTest {
  private static final int HIDDEN = 128;

  /** Timeout for a silent rank; on a busy machine no other rank may be this late. */
  private static final Duration SHORT = Duration.ofSeconds(3);

  private static final Duration LONG = Duration.ofSeconds(60);

  /** Test body of a rank. */
  interface Body {
    void run(ExpertBuffer buffer, Group group) throws Exception;
  }

  static void onRanks(int ranks, boolean masking, Duration timeout, Body body) {
    onRanks(ranks, ranks, masking, timeout, body);
  }

  private static BufferConfig.Builder config(
      int ranks, int ranksPerNode, boolean masking, Duration timeout) {
    return BufferConfig.builder()
        .engine("host")
        .hidden(HIDDEN)
        .topK(ranks)
        .experts(ranks)
        .lowLatency(LowLatencyConfig.builder().maxTokens(2).masking(masking).build())
        .timeout(timeout)
        .ranksPerNode(ranksPerNode);
  }

  private static void onRanks(
      int ranks, int ranksPerNode, boolean masking, Duration timeout, Body body) {
    BufferConfig config = config(ranks, ranksPerNode, masking, timeout).build();
    ThreadRanks.run(
        ranks,
        group -> {
          try (ExpertBuffer buffer = ExpertBuffer.open(group, config)) {
            body.run(buffer, group);
          }
        });
  }

  static LowLatencyDispatch dispatch(ExpertBuffer buffer, boolean hook) {
    short[] row = new short[HIDDEN];
    Arrays.fill(row, bf16(buffer.rank()));
    return buffer.lowLatencyDispatch(
        Tensor.ofBf16(row, 1, HIDDEN),
        routing(buffer.worldSize()),
        LowLatencyDispatchOptions.builder()
            .format(LowLatencyCase.BF16.format())
            .returnHook(hook)
            .build());
  }

  private static Routing routing(int ranks) {
    long[] ids = new long[ranks];
    float[] weights = new float[ranks];
    for (int e = 0; e < ranks; e++) {
      ids[e] = e;
      weights[e] = 1;
    }
    return Routing.of(ids, weights, ranks);
  }

  static LowLatencyCombine combine(ExpertBuffer buffer, LowLatencyDispatch d, boolean hook) {
    int rows = buffer.worldSize() * 2;
    Tensor y = Tensor.ofBf16(new short[rows * HIDDEN], 1, rows, HIDDEN);
    for (int row = 0; row < d.counts().getInt(0); row++) {
      short value = bf16(16 * (buffer.rank() + 1) + d.x().getFloat((long) row * HIDDEN));
      for (int h = 0; h < HIDDEN; h++) {
        y.segment().set(ValueLayout.JAVA_SHORT_UNALIGNED, 2L * (row * HIDDEN + h), value);
      }
    }
    LowLatencyCombineOptions options = LowLatencyCombineOptions.builder().returnHook(hook).build();
    return buffer.lowLatencyCombine(y, routing(buffer.worldSize()), d.handle(), options);
  }

  /** Expected sum of a rank from the experts of {@code owners}. */
  static float sum(int rank, int... owners) {
    float sum = 0;
    for (int owner : owners) {
      sum += 16 * (owner + 1) + rank;
    }
    return sum;
  }

  private static void await(CyclicBarrier barrier) throws Exception {
    barrier.await(30, TimeUnit.SECONDS);
  }

  @Test
  void silentRankIsMaskedAndAdmittedAgain() {
    CyclicBarrier others = new CyclicBarrier(3);
    onRanks(
        3,
        true,
        SHORT,
        (buffer, group) -> {
          int rank = buffer.rank();
          if (rank != 2) {
            LowLatencyDispatch d = dispatch(buffer, false);
            assertThat(ints(d.counts())).containsExactly(2);
            assertThat(buffer.isMasked(2)).isTrue();
            int[] mask = new int[3];
            buffer.queryMask(Tensor.of(mask, 3));
            assertThat(mask).containsExactly(0, 0, 1);
            assertThat(heads(combine(buffer, d, false).x())).containsExactly(sum(rank, 0, 1));
            d = dispatch(buffer, false);
            assertThat(heads(combine(buffer, d, false).x())).containsExactly(sum(rank, 0, 1));
          }
          await(others);
          buffer.cleanMask();
          assertThat(buffer.isMasked(2)).isFalse();
          await(others);
          for (int round = 0; round < 3; round++) {
            LowLatencyDispatch d = dispatch(buffer, false);
            assertThat(ints(d.counts())).containsExactly(3);
            assertThat(heads(combine(buffer, d, false).x())).containsExactly(sum(rank, 0, 1, 2));
          }
        });
  }

  @Test
  void rankMissingInCombineIsMasked() {
    CyclicBarrier others = new CyclicBarrier(3);
    onRanks(
        3,
        true,
        SHORT,
        (buffer, group) -> {
          int rank = buffer.rank();
          LowLatencyDispatch d = dispatch(buffer, false);
          if (rank != 0) {
            assertThat(heads(combine(buffer, d, false).x())).containsExactly(sum(rank, 1, 2));
            assertThat(buffer.isMasked(0)).isTrue();
          }
          await(others);
        });
  }

  @Test
  void deadRankIsMaskedLongBeforeTheDeadlineAndStaysMasked() {
    onRanks(
        3,
        true,
        LONG,
        (buffer, group) -> {
          int rank = buffer.rank();
          LowLatencyDispatch d = dispatch(buffer, false);
          if (rank == 1) {
            group.fail("for the test");
            return;
          }
          long start = System.nanoTime();
          assertThat(heads(combine(buffer, d, false).x())).containsExactly(sum(rank, 0, 2));
          buffer.cleanMask();
          assertThat(buffer.isMasked(1)).isTrue();
          d = dispatch(buffer, false);
          assertThat(heads(combine(buffer, d, false).x())).containsExactly(sum(rank, 0, 2));
          assertThat(Duration.ofNanos(System.nanoTime() - start)).isLessThan(LONG);
        });
  }

  @ParameterizedTest
  @ValueSource(ints = {1, 2})
  void aRankThatHasClosedItsBufferStaysMasked(int ranksPerNode) {
    CyclicBarrier both = new CyclicBarrier(2);
    onRanks(
        2,
        ranksPerNode,
        true,
        LONG,
        (buffer, group) -> {
          if (buffer.rank() == 1) {
            buffer.close();
            await(both);
            await(both);
            return;
          }
          await(both);
          for (int i = 0; i < 2; i++) {
            assertThat(ints(dispatch(buffer, false).counts())).containsExactly(1);
            assertThat(buffer.isMasked(1)).isTrue();
            buffer.cleanMask();
            assertThat(buffer.isMasked(1)).isTrue();
          }
          await(both);
        });
  }

  @Test
  void barrierWaitsForMaskedRanksAndFailsOnDeadOnes() {
    AtomicBoolean late = new AtomicBoolean();
    onRanks(
        2,
        true,
        LONG,
        (buffer, group) -> {
          int other = 1 - buffer.rank();
          buffer.updateMask(other, true);
          if (buffer.rank() == 1) {
            Thread.sleep(200);
            late.set(true);
            buffer.barrier();
            group.fail("for the test");
            return;
          }
          buffer.barrier();
          assertThat(late).isTrue();
          PeerTimeoutException error =
              catchThrowableOfType(PeerTimeoutException.class, buffer::barrier);
          assertThat(error).isNotNull();
          assertThat(error.peer()).isEqualTo(1);
          assertThat(error.peerDead()).isTrue();
          assertThat(buffer.isMasked(1)).isTrue();
        });
  }

  @Test
  void ranksMaskedByHandDoNotCount() {
    onRanks(
        4,
        false,
        LONG,
        (buffer, group) -> {
          // Ranks 0 and 1 continue without 2 and 3, and 2 and 3 without 0 and 1.
          int rank = buffer.rank();
          int first = rank / 2 * 2;
          for (int r = 0; r < 4; r++) {
            if (r / 2 != rank / 2) {
              buffer.updateMask(r, true);
            }
          }
          for (int round = 0; round <= rank / 2; round++) { // one pair calls more than the other
            LowLatencyDispatch d = dispatch(buffer, false);
            assertThat(ints(d.counts())).containsExactly(2);
            assertThat(heads(combine(buffer, d, false).x()))
                .containsExactly(sum(rank, first, first + 1));
          }
          buffer.barrier();
          buffer.cleanMask();
          buffer.barrier();
          LowLatencyDispatch d = dispatch(buffer, false);
          assertThat(heads(combine(buffer, d, false).x())).containsExactly(sum(rank, 0, 1, 2, 3));
        });
  }

  /** More operations than a lane to the masked rank, which takes nothing, can hold. */
  @Test
  void aMaskedRankOfAnotherNodeThatIsElsewhereHoldsUpNoOther() {
    CyclicBarrier all = new CyclicBarrier(3);
    BufferConfig config = config(3, 2, false, SHORT).wire("tcp").build();
    ThreadRanks.run(
        3,
        group -> {
          try (ExpertBuffer buffer = ExpertBuffer.open(group, config)) {
            int rank = buffer.rank();
            assertThat(heads(combine(buffer, dispatch(buffer, false), false).x()))
                .containsExactly(sum(rank, 0, 1, 2));
            if (rank != 2) {
              buffer.updateMask(2, true);
              for (int round = 0; round < 600; round++) {
                assertThat(heads(combine(buffer, dispatch(buffer, false), false).x()))
                    .containsExactly(sum(rank, 0, 1));
              }
            }
            all.await(60, TimeUnit.SECONDS);
            buffer.barrier();
            buffer.cleanMask();
            buffer.barrier();
            for (int round = 0; round < 3; round++) {
              assertThat(heads(combine(buffer, dispatch(buffer, false), false).x()))
                  .containsExactly(sum(rank, 0, 1, 2));
            }
          }
        });
  }

  @Test
  void lateRankDoesNotSumRowsThatHaveBeenOverwritten() {
    CyclicBarrier both = new CyclicBarrier(2);
    onRanks(
        2,
        true,
        SHORT,
        (buffer, group) -> {
          int rank = buffer.rank();
          LowLatencyDispatch d = dispatch(buffer, false);
          LowLatencyCombine c = combine(buffer, d, true);
          if (rank == 0) {
            c.hook().receive();
            for (int round = 0; round < 3; round++) { // rank 1 does not follow
              LowLatencyDispatch alone = dispatch(buffer, false);
              assertThat(heads(combine(buffer, alone, false).x())).containsExactly(sum(0, 0));
            }
            await(both);
          } else {
            await(both);
            c.hook().receive();
            assertThat(heads(c.x())).containsExactly(sum(1, 1));
            assertThat(buffer.isMasked(0)).isTrue();
          }
        });
  }

  @Test
  void withoutMaskingARankMaskedByAPeerGetsAnError() {
    CyclicBarrier both = new CyclicBarrier(2);
    onRanks(
        2,
        false,
        SHORT,
        (buffer, group) -> {
          LowLatencyDispatch d = dispatch(buffer, false);
          LowLatencyCombine c = combine(buffer, d, true);
          if (buffer.rank() == 0) {
            buffer.updateMask(1, true);
            await(both);
          } else {
            await(both);
            assertThatThrownBy(() -> c.hook().receive())
                .isInstanceOf(PeerTimeoutException.class)
                .hasMessageContaining("rows (the peer has masked this rank)");
          }
        });
  }

  @Test
  void silentRankIsNamedAndResetMendsTheBuffer() {
    CyclicBarrier both = new CyclicBarrier(2);
    onRanks(
        2,
        false,
        SHORT,
        (buffer, group) -> {
          if (buffer.rank() == 0) {
            PeerTimeoutException e =
                catchThrowableOfType(PeerTimeoutException.class, () -> dispatch(buffer, false));
            assertThat(e.operation()).isEqualTo("low-latency dispatch");
            assertThat(e.phase()).isEqualTo("rows");
            assertThat(e.epoch()).isEqualTo(1);
            assertThat(e.peer()).isEqualTo(1);
            assertThat(e.expected()).isEqualTo(1);
            assertThat(e.seen()).isZero();
            assertThat(e.peerDead()).isFalse();
            assertThatThrownBy(() -> dispatch(buffer, false))
                .isInstanceOf(IllegalStateException.class)
                .hasMessageStartingWith(ErrorCode.RESET_NEEDED.id());
          }
          await(both);
          buffer.reset();
          for (int round = 0; round < 3; round++) {
            LowLatencyDispatch d = dispatch(buffer, false);
            assertThat(heads(combine(buffer, d, false).x()))
                .containsExactly(sum(buffer.rank(), 0, 1));
          }
        });
  }

  @Test
  void resetAbortsWhatIsInFlight() {
    onRanks(
        2,
        false,
        LONG,
        (buffer, group) -> {
          LowLatencyDispatch before = dispatch(buffer, false);
          LowLatencyDispatch d = dispatch(buffer, true);
          buffer.reset();
          assertThatThrownBy(() -> d.hook().receive())
              .isInstanceOf(IllegalStateException.class)
              .hasMessageStartingWith(ErrorCode.NO_RESULTS.message("low-latency dispatch 2 "));
          assertThatThrownBy(before::counts).isInstanceOf(IllegalStateException.class);
          LowLatencyDispatch next = dispatch(buffer, false);
          assertThat(heads(combine(buffer, next, false).x()))
              .containsExactly(sum(buffer.rank(), 0, 1));
        });
  }

  @Test
  void survivorsOfADeathContinueAfterReset() {
    onRanks(
        3,
        false,
        LONG,
        (buffer, group) -> {
          int rank = buffer.rank();
          LowLatencyDispatch d = dispatch(buffer, false);
          if (rank == 2) {
            group.fail("for the test");
            return;
          }
          PeerTimeoutException e =
              catchThrowableOfType(PeerTimeoutException.class, () -> combine(buffer, d, false));
          assertThat(e.peer()).isEqualTo(2);
          assertThat(e.peerDead()).isTrue();
          assertThat(e).hasMessageContaining("for the test");
          buffer.reset();
          assertThat(buffer.isMasked(2)).isTrue();
          LowLatencyDispatch smaller = dispatch(buffer, false);
          assertThat(heads(combine(buffer, smaller, false).x())).containsExactly(sum(rank, 0, 1));
        });
  }
}
