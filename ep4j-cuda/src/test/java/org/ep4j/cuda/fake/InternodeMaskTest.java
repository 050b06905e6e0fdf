package org.ep4j.cuda.fake;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.assertj.core.api.Assertions.catchThrowableOfType;

import java.time.Duration;
import java.util.List;
import org.ep4j.ExpertBuffer;
import org.ep4j.LowLatencyDispatch;
import org.ep4j.LowLatencyDispatchOptions;
import org.ep4j.config.BufferConfig;
import org.ep4j.config.LowLatencyConfig;
import org.ep4j.cuda.driver.CudaDevice;
import org.ep4j.cuda.engine.Batch;
import org.ep4j.error.Ep4jException;
import org.ep4j.error.ErrorCode;
import org.ep4j.error.IllegalUseException;
import org.ep4j.error.InvalidArgumentException;
import org.ep4j.group.Group;
import org.ep4j.group.ThreadRanks;
import org.ep4j.tensor.RowFormat;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Masks of ranks of several nodes: what callers may do with them, and how ranks are admitted. */
@OnFakeDriver
@Timeout(60)
class InternodeMaskTest {
  private static final int RANKS = 3;
  private static final int MASKED = 1;
  private static final Duration LONG = Duration.ofMinutes(10);

  private static BufferConfig config(String wire, boolean masking) {
    LowLatencyConfig lowLatency =
        LowLatencyConfig.builder().maxTokens(OneRank.TOKENS).masking(masking).build();
    return Batch.config(OneRank.TOKENS)
        .lowLatency(lowLatency)
        .timeout(LONG)
        .ranksPerNode(2)
        .wire(wire)
        .build();
  }

  @ParameterizedTest
  @ValueSource(strings = {"staged", "tcp"})
  void aRankThatKernelsHaveMaskedIsAdmittedByAllRanksTogether(String wire) {
    FakeKernels.mask(MASKED);
    ThreadRanks.run(
        RANKS,
        group -> {
          try (ExpertBuffer buffer = ExpertBuffer.open(group, config(wire, true))) {
            group.barrier(LONG);
            if (group.rank() == 0) {
              dispatch(buffer, false);
              assertThat(buffer.isMasked(MASKED)).isTrue();
              assertThatThrownBy(() -> buffer.updateMask(MASKED, false))
                  .isInstanceOf(IllegalUseException.class)
                  .hasMessageStartingWith(ErrorCode.OPERATIONS_MISSED.id())
                  .hasMessageContaining("rank 1")
                  .hasMessageContaining("cleanMask()");
              assertThat(buffer.isMasked(MASKED)).isTrue();
            }
            buffer.cleanMask();
            assertThat(buffer.isMasked(MASKED)).isFalse();
            // The connection has begun anew, and so can do it again.
            buffer.cleanMask();
            buffer.reset();
            buffer.barrier();
          }
        });
  }

  @Test
  void aRankThatHasMissedNothingIsAdmittedByItsCaller() {
    ThreadRanks.run(
        RANKS,
        group -> {
          try (ExpertBuffer buffer = ExpertBuffer.open(group, config("tcp", true))) {
            int other = (group.rank() + 1) % RANKS;
            buffer.updateMask(other, true);
            assertThat(buffer.isMasked(other)).isTrue();
            buffer.updateMask(other, false);
            assertThat(buffer.isMasked(other)).isFalse();
            buffer.barrier();
          }
        });
  }

  /**
   * Transfers of a dead rank may still arrive over some wires: they change no other rank's rows.
   */
  @ParameterizedTest
  @ValueSource(strings = {"staged", "tcp"})
  void aDeadRankStaysMasked(String wire) {
    ThreadRanks.run(
        RANKS,
        group -> {
          int dead = 2;
          try (ExpertBuffer buffer = ExpertBuffer.open(group, config(wire, true))) {
            group.barrier(LONG);
            if (group.rank() == dead) {
              group.fail("expert 17 exploded");
              return;
            }
            awaitDeath(group, dead);
            buffer.updateMask(1 - group.rank(), true);
            buffer.cleanMask();
            assertThat(buffer.isMasked(dead)).isTrue();
            assertThat(buffer.isMasked(1 - group.rank())).isFalse();
            buffer.cleanMask();
            assertThat(buffer.isMasked(dead)).isTrue();
          }
        });
  }

  @Test
  void noRankAdmitsOthersWhileAHookIsOpen() {
    List<Ep4jException> errors =
        ThreadRanks.call(
            RANKS,
            group -> {
              try (ExpertBuffer buffer = ExpertBuffer.open(group, config("tcp", true))) {
                group.barrier(LONG);
                LowLatencyDispatch open = group.rank() == 0 ? dispatch(buffer, true) : null;
                Ep4jException error = catchThrowableOfType(Ep4jException.class, buffer::cleanMask);
                if (open != null) {
                  open.hook().receive();
                }
                buffer.cleanMask();
                buffer.barrier();
                return error;
              }
            });
    assertThat(errors)
        .allSatisfy(
            error ->
                assertThat(error)
                    .hasMessageStartingWith(ErrorCode.PEER_FAILED.id())
                    .hasMessageContaining("rank 0: cleanMask: a low-latency operation is in"));
  }

  /** Such a buffer has no memory for late writers. */
  @Test
  void masksNeedMasking() {
    ThreadRanks.run(
        RANKS,
        group -> {
          try (ExpertBuffer buffer = ExpertBuffer.open(group, config("tcp", false))) {
            int other = (group.rank() + 1) % RANKS;
            assertThatThrownBy(() -> buffer.updateMask(other, true))
                .isInstanceOf(UnsupportedOperationException.class)
                .hasMessageStartingWith(ErrorCode.CUDA_INTERNODE_UNSUPPORTED.id())
                .hasMessageContaining("LowLatencyConfig.masking");
            assertThatThrownBy(buffer::cleanMask)
                .isInstanceOf(UnsupportedOperationException.class)
                .hasMessageStartingWith(ErrorCode.CUDA_INTERNODE_UNSUPPORTED.id());
          }
        });
  }

  @Test
  void aLibraryBetweenNodesIsRefused() {
    ThreadRanks.run(
        RANKS,
        group ->
            assertThatThrownBy(() -> ExpertBuffer.open(group, config("backend", true)))
                .isInstanceOf(InvalidArgumentException.class)
                .hasMessageStartingWith(ErrorCode.CUDA_MASKING_INTERNODE.id())
                .hasMessageContaining("wire 'backend'"));
  }

  private static void awaitDeath(Group group, int rank) {
    while (group.isAlive(rank)) {
      Thread.onSpinWait();
    }
  }

  private static LowLatencyDispatch dispatch(ExpertBuffer buffer, boolean hook) {
    try (CudaDevice device = CudaDevice.open(0);
        Batch batch = new Batch(device, OneRank.TOKENS)) {
      batch.fill(0, 1);
      return buffer.lowLatencyDispatch(
          batch.x,
          batch.routing,
          LowLatencyDispatchOptions.builder().format(RowFormat.BF16).returnHook(hook).build());
    }
  }
}
