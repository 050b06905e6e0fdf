package org.ep4j.cuda.engine;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.time.Duration;
import java.util.concurrent.CyclicBarrier;
import org.ep4j.CombineOptions;
import org.ep4j.CombineOrder;
import org.ep4j.Dispatch;
import org.ep4j.DispatchHandle;
import org.ep4j.DispatchOptions;
import org.ep4j.ExpertBuffer;
import org.ep4j.GroupedDispatch;
import org.ep4j.Tokens;
import org.ep4j.config.Layout;
import org.ep4j.cuda.driver.CudaDevice;
import org.ep4j.cuda.driver.Gpu;
import org.ep4j.error.ConfigurationMismatchException;
import org.ep4j.error.ErrorCode;
import org.ep4j.error.InvalidArgumentException;
import org.ep4j.error.PeerTimeoutException;
import org.ep4j.execution.Execution;
import org.ep4j.group.ThreadRanks;
import org.ep4j.tensor.DType;
import org.ep4j.tensor.Tensor;
import org.junit.jupiter.api.Test;

/** Failures are reported, and later operations of the buffer are correct, byte for byte. */
class FailureTest {
  private static final int TOKENS = 40;

  @Test
  void aSilentPeerIsNamedAndResetMakesTheBufferUsable() {
    Gpu.require(1);
    CyclicBarrier step = new CyclicBarrier(2);
    ThreadRanks.run(
        2,
        group -> {
          int rank = group.rank();
          try (CudaDevice device = CudaDevice.open(rank % CudaDevice.count());
              ExpertBuffer buffer =
                  ExpertBuffer.open(
                      group, Batch.config(TOKENS).timeout(Duration.ofSeconds(2)).build());
              Batch batch = new Batch(device, TOKENS)) {
            roundTrip(buffer, batch, 1);
            if (rank == 0) {
              assertThatThrownBy(() -> buffer.dispatch(batch.x, batch.routing))
                  .isInstanceOfSatisfying(
                      PeerTimeoutException.class,
                      e -> {
                        assertThat(e.peer()).isEqualTo(1);
                        assertThat(e.phase()).isEqualTo("entry");
                        assertThat(e.peerDead()).isFalse();
                      })
                  .hasMessageContaining("dispatch")
                  .hasMessageMatching(".* after [1-9]\\d{3} ms; .*")
                  .hasMessageContaining("reset()");
              assertThatThrownBy(() -> buffer.dispatch(batch.x, batch.routing))
                  .isInstanceOf(IllegalStateException.class)
                  .hasMessageStartingWith(ErrorCode.RESET_NEEDED.id());
            }
            step.await();
            buffer.reset();
            roundTrip(buffer, batch, 2);
          }
        });
  }

  /** Which wait fails first is random: it may be a wait for a rank that is itself delayed. */
  @Test
  void allOthersNameTheSilentRank() {
    Gpu.require(1);
    int ranks = 4;
    CyclicBarrier step = new CyclicBarrier(ranks);
    ThreadRanks.run(
        ranks,
        group -> {
          int rank = group.rank();
          try (CudaDevice device = CudaDevice.open(rank % CudaDevice.count());
              ExpertBuffer buffer =
                  ExpertBuffer.open(
                      group, Batch.config(TOKENS).timeout(Duration.ofSeconds(2)).build());
              Batch batch = new Batch(device, TOKENS)) {
            for (int round = 0; round < 6; round++) {
              roundTrip(buffer, batch, round);
              int silent = round % ranks;
              Dispatch dispatch = buffer.dispatch(batch.x, batch.routing);
              try (DispatchHandle handle = dispatch.handle()) {
                Tensor y = dispatch.combineInput(DType.BF16).rows(0, handle.rows());
                step.await();
                if (rank != silent) {
                  Runnable call = call(round % 3, buffer, batch, y, handle);
                  assertThatThrownBy(call::run)
                      .isInstanceOfSatisfying(
                          PeerTimeoutException.class,
                          e -> {
                            assertThat(e.peer()).isEqualTo(silent);
                            assertThat(e.phase()).isEqualTo("entry");
                            assertThat(e.peerDead()).isFalse();
                          });
                }
                step.await();
              }
              buffer.reset();
            }
            roundTrip(buffer, batch, 6);
          }
        });
  }

  private static Runnable call(
      int which, ExpertBuffer buffer, Batch batch, Tensor y, DispatchHandle handle) {
    return switch (which) {
      case 0 -> () -> buffer.dispatch(batch.x, batch.routing);
      case 1 -> () -> buffer.dispatchGrouped(batch.x, batch.routing);
      default -> () -> buffer.combine(y, handle);
    };
  }

  /** The memory of the closed rank must stay: the kernel of the other rank still writes there. */
  @Test
  void aRankThatClosesTooEarlyLeavesTheContextsUsable() {
    Gpu.require(1);
    CyclicBarrier closed = new CyclicBarrier(2);
    ThreadRanks.run(
        2,
        group -> {
          int rank = group.rank();
          try (CudaDevice device = CudaDevice.open(rank % CudaDevice.count());
              Batch batch = new Batch(device, TOKENS)) {
            try (ExpertBuffer buffer =
                ExpertBuffer.open(
                    group, Batch.config(TOKENS).timeout(Duration.ofSeconds(2)).build())) {
              roundTrip(buffer, batch, 1);
              if (rank == 0) {
                closed.await();
                assertThatThrownBy(() -> buffer.dispatch(batch.x, batch.routing))
                    .isInstanceOf(PeerTimeoutException.class)
                    .hasMessageContaining("rank 1");
              }
            }
            if (rank == 1) {
              closed.await();
            }
            closed.await();
            try (ExpertBuffer again = ExpertBuffer.open(group, Batch.config(TOKENS).build())) {
              roundTrip(again, batch, 2);
            }
          }
        });
  }

  @Test
  void invalidIdsOnTheDeviceAreReportedAndTheNextDispatchWorks() {
    Gpu.require(1);
    ThreadRanks.run(
        2,
        group -> {
          int rank = group.rank();
          try (CudaDevice device = CudaDevice.open(rank % CudaDevice.count());
              ExpertBuffer buffer = ExpertBuffer.open(group, Batch.config(TOKENS).build());
              Batch batch = new Batch(device, TOKENS)) {
            batch.fill(rank, 1);
            if (rank == 0) {
              poke(batch, 3L * Batch.TOP_K + 1, 99);
              assertThatThrownBy(() -> buffer.dispatch(batch.x, batch.routing))
                  .isInstanceOf(InvalidArgumentException.class)
                  .hasMessageContaining("topkIdx[3, 1]")
                  .hasMessageContaining("99");
            } else {
              buffer.dispatch(batch.x, batch.routing).handle().close();
            }
            batch.fill(rank, 2);
            if (rank == 0) {
              poke(batch, 5L * Batch.TOP_K, 7);
              poke(batch, 5L * Batch.TOP_K + 2, 7);
              assertThatThrownBy(() -> buffer.dispatchLayout(batch.routing))
                  .isInstanceOf(InvalidArgumentException.class)
                  .hasMessageContaining("topkIdx[5,");
            }
            roundTrip(buffer, batch, 3);
          }
        });
  }

  @Test
  void ranksThatCallDifferentOperationsAreNamedWithThem() {
    Gpu.require(1);
    ThreadRanks.run(
        2,
        group -> {
          int rank = group.rank();
          try (CudaDevice device = CudaDevice.open(rank % CudaDevice.count());
              ExpertBuffer buffer =
                  ExpertBuffer.open(
                      group, Batch.config(TOKENS).timeout(Duration.ofSeconds(2)).build());
              Batch batch = new Batch(device, TOKENS)) {
            roundTrip(buffer, batch, 1);
            Dispatch dispatch = buffer.dispatch(batch.x, batch.routing);
            Tensor y = dispatch.combineInput(DType.BF16);
            DispatchHandle handle = dispatch.handle();
            buffer.barrier();
            assertThatThrownBy(
                    () -> {
                      if (rank == 0) {
                        buffer.dispatch(batch.x, batch.routing);
                      } else {
                        buffer.combine(y, handle);
                      }
                    })
                .isInstanceOf(ConfigurationMismatchException.class)
                .hasCauseInstanceOf(PeerTimeoutException.class)
                .hasMessageContaining(
                    rank == 0
                        ? "rank 1 differs in the operation: combine there, dispatch on rank 0"
                        : "rank 0 differs in the operation: dispatch there, combine on rank 1");
            handle.close();
            buffer.reset();
            roundTrip(buffer, batch, 2);
          }
        });
  }

  @Test
  void ranksThatSumInOtherOrdersAreNamedAtTheFirstCombine() {
    Gpu.require(1);
    ThreadRanks.run(
        2,
        group -> {
          int rank = group.rank();
          try (CudaDevice device = CudaDevice.open(rank % CudaDevice.count());
              ExpertBuffer buffer =
                  ExpertBuffer.open(
                      group, Batch.config(TOKENS).timeout(Duration.ofSeconds(2)).build());
              Batch batch = new Batch(device, TOKENS)) {
            batch.fill(rank, 1);
            GroupedDispatch received =
                buffer.dispatchGrouped(batch.x, batch.routing, DispatchOptions.DEFAULT);
            CombineOptions options =
                CombineOptions.builder()
                    .order(rank == 0 ? CombineOrder.EXPERT : CombineOrder.RANK)
                    .build();
            DispatchHandle handle = received.handle();
            assertThatThrownBy(() -> buffer.combine(received.x(), handle, options))
                .isInstanceOf(ConfigurationMismatchException.class)
                .hasMessageContaining("rank " + (1 - rank) + " differs in the order");
            handle.close();
            buffer.reset();
            roundTrip(buffer, batch, 2);
          }
        });
  }

  @Test
  void failedDispatchesReturnTheirHandles() {
    Gpu.require(1);
    ThreadRanks.run(
        2,
        group -> {
          int rank = group.rank();
          try (CudaDevice device = CudaDevice.open(rank % CudaDevice.count());
              ExpertBuffer buffer = ExpertBuffer.open(group, Batch.config(TOKENS).build());
              Batch batch = new Batch(device, TOKENS)) {
            batch.fill(rank, 1);
            poke(batch, 3L * Batch.TOP_K + 1, 99);
            failOften(buffer, batch);
            long memory = buffer.statistics().privateBytes();
            failOften(buffer, batch);
            assertThat(buffer.statistics().privateBytes()).isEqualTo(memory);
          }
        });
  }

  /** More often than closed handles rest before reuse. */
  private static void failOften(ExpertBuffer buffer, Batch batch) {
    DispatchOptions async = DispatchOptions.builder().execution(Execution.ASYNCHRONOUS).build();
    for (int i = 0; i < 8; i++) {
      assertThatThrownBy(() -> buffer.dispatch(batch.x, batch.routing))
          .isInstanceOf(InvalidArgumentException.class);
      Dispatch later = buffer.dispatch(Tokens.of(batch.x), batch.routing, async);
      assertThatThrownBy(() -> later.event().await()).isInstanceOf(InvalidArgumentException.class);
    }
  }

  private static void poke(Batch batch, long index, long id) {
    Tensor ids = batch.routing.topkIdx();
    byte[] bytes = new byte[(int) ids.byteSize()];
    MemorySegment copy = MemorySegment.ofArray(bytes);
    ids.copyTo(copy);
    copy.set(ValueLayout.JAVA_LONG_UNALIGNED, index * Long.BYTES, id);
    ids.copyFrom(copy);
  }

  /** Operations deliver the bytes of the batches with this seed. */
  private static void roundTrip(ExpertBuffer buffer, Batch batch, long seed) {
    int rank = buffer.rank();
    batch.fill(rank, seed);
    Expected expected = new Expected(buffer.worldSize(), TOKENS, seed, Layout.FLAT, 1);
    Dispatch dispatch = buffer.dispatch(batch.x, batch.routing);
    expected.checkDispatch(rank, dispatch);
    try (DispatchHandle handle = dispatch.handle()) {
      Tensor y = dispatch.combineInput(DType.BF16).rows(0, handle.rows());
      expected.fillAnswers(y, rank);
      // This rank must not yet be in a combine, which would wait for a rank that still allocates.
      buffer.barrier();
      expected.checkCombine(rank, buffer.combine(y, handle), CombineOrder.RANK);
    }
    buffer.barrier();
  }
}
