package org.ep4j.cuda.fake;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.catchThrowableOfType;

import java.lang.foreign.ValueLayout;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.ep4j.DispatchOptions;
import org.ep4j.ExpertBuffer;
import org.ep4j.LowLatencyDispatchOptions;
import org.ep4j.Sizing;
import org.ep4j.Tokens;
import org.ep4j.config.BufferConfig;
import org.ep4j.config.LowLatencyConfig;
import org.ep4j.cuda.driver.CudaDevice;
import org.ep4j.cuda.engine.Batch;
import org.ep4j.cuda.struct.Control;
import org.ep4j.error.PeerTimeoutException;
import org.ep4j.execution.Event;
import org.ep4j.execution.Execution;
import org.ep4j.memory.NativeMemory;
import org.ep4j.tensor.RowFormat;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Failures in a node of two hosts: what ranks of one host learn of ranks of the other. */
@OnFakeDriver
@Timeout(120)
class DomainFailuresTest {
  private static final String HOSTS = "aabb";
  private static final int RANKS = HOSTS.length();
  private static final int NOT_PERMITTED = 800;
  private static final Duration LIMIT = HostRanks.LIMIT;

  @BeforeEach
  void inOneDomain() {
    FakeDriver.joinDomain();
  }

  private static BufferConfig config(boolean masking) {
    LowLatencyConfig lowLatency =
        LowLatencyConfig.builder().maxTokens(OneRank.TOKENS).masking(masking).build();
    return Batch.config(OneRank.TOKENS).lowLatency(lowLatency).timeout(ReturningRanks.LONG).build();
  }

  private static Event dispatch(ExpertBuffer buffer, Batch batch, int rank) {
    batch.fill(rank, 1);
    return buffer
        .dispatch(
            Tokens.of(batch.x),
            batch.routing,
            DispatchOptions.builder()
                .sizing(Sizing.atMost((long) RANKS * OneRank.TOKENS))
                .execution(Execution.ASYNCHRONOUS)
                .build())
        .event();
  }

  /** The parameters of the last dispatch of a rank. */
  private static FakeKernels.Launch launchOf(int rank) {
    return FakeKernels.launches().stream()
        .filter(launch -> launch.kernel().equals(FakeKernels.DISPATCH))
        .filter(launch -> launch.get("rank") == rank)
        .reduce((_, last) -> last)
        .orElseThrow();
  }

  private static long aborts(FakeKernels.Launch launch) {
    return NativeMemory.getLongAcquire(launch.get("host_abort"));
  }

  /** The word behind that one that ends waits for {@code peer} alone. */
  private static long gone(FakeKernels.Launch launch, int peer) {
    return NativeMemory.getLongAcquire(launch.get("host_abort") + (1L + peer) * Long.BYTES);
  }

  @Test
  void aKernelIsToldOfARankOfTheOtherHostThatHasClosedItsBuffer() {
    CountDownLatch waiting = new CountDownLatch(1);
    CountDownLatch told = new CountDownLatch(1);
    HostRanks.run(
        "ab",
        rank -> {
          try (CudaDevice device = CudaDevice.open(rank.rank());
              Batch batch = new Batch(device, OneRank.TOKENS)) {
            try (ExpertBuffer buffer = rank.open(config(false))) {
              if (rank.rank() == 1) {
                assertThat(waiting.await(60, TimeUnit.SECONDS)).isTrue();
              } else {
                FakeDriver.hold();
                Thread waiter =
                    Thread.ofPlatform().start(dispatch(buffer, batch, rank.rank())::await);
                FakeKernels.Launch launch = launchOf(0);
                assertThat(gone(launch, 1)).isZero();
                waiting.countDown();
                long deadline = System.nanoTime() + LIMIT.toNanos() / 2;
                while (gone(launch, 1) == 0) {
                  assertThat(System.nanoTime()).isLessThan(deadline);
                }
                assertThat(aborts(launch)).as("waits for others").isZero();
                FakeDriver.release();
                waiter.join();
                told.countDown();
              }
            }
            // The group of a closed buffer stays: the rank has not left it.
            assertThat(told.await(60, TimeUnit.SECONDS)).isTrue();
          }
        });
  }

  @Test
  void kernelsOfTheOtherHostAreToldOfAnAbortAndAllReset() {
    HostRanks.run(
        HOSTS,
        rank -> {
          int me = rank.rank();
          try (CudaDevice device = CudaDevice.open(me % CudaDevice.count());
              ExpertBuffer buffer = rank.open(config(false));
              Batch batch = new Batch(device, OneRank.TOKENS)) {
            if (me == 0) {
              FakeKernels.reportTimeout();
              FakeDriver.hold();
            }
            rank.group.barrier(LIMIT);
            Event end = dispatch(buffer, batch, me);
            rank.group.barrier(LIMIT);
            if (me == 0) {
              Thread.currentThread().interrupt();
              assertThat(catchThrowableOfType(RuntimeException.class, buffer::barrier))
                  .hasMessageContaining("interrupted");
              assertThat(Thread.interrupted()).isTrue();
              for (int other = 1; other < RANKS; other++) {
                awaitAbort(launchOf(other));
              }
              FakeDriver.release();
            }
            rank.group.barrier(LIMIT);
            if (me > 0) {
              PeerTimeoutException error =
                  catchThrowableOfType(PeerTimeoutException.class, end::await);
              assertThat(error.peer()).isZero();
              assertThat(error).hasMessageContaining("rank 0 has aborted");
            }
            rank.group.barrier(LIMIT);
            buffer.reset();
            buffer.barrier();
          }
        });
  }

  private static void awaitAbort(FakeKernels.Launch launch) throws InterruptedException {
    long deadline = System.nanoTime() + LIMIT.toNanos() / 2;
    while (aborts(launch) == 0) {
      assertThat(System.nanoTime()).isLessThan(deadline);
      Thread.sleep(1);
    }
  }

  /** A stopped rank finds the fence in its own memory. */
  @Test
  void survivorsFenceALostRankOfTheOtherHostAndContinue() {
    int lost = RANKS - 1;
    HostRanks.run(
        HOSTS,
        rank -> {
          int me = rank.rank();
          try (CudaDevice device = CudaDevice.open(me % CudaDevice.count());
              ExpertBuffer buffer = rank.open(config(false));
              Batch batch = new Batch(device, OneRank.TOKENS)) {
            Event _ = dispatch(buffer, batch, me);
            rank.group.barrier(LIMIT);
            if (me == lost) {
              rank.group.fail("stopped");
              long own = peers(launchOf(lost))[lost] + Control.WORDS.fencedBy.offset();
              long deadline = System.nanoTime() + LIMIT.toNanos() / 2;
              while (NativeMemory.getLongAcquire(own) == 0) {
                assertThat(System.nanoTime()).isLessThan(deadline);
                Thread.sleep(1);
              }
              return;
            }
            while (rank.group.isAlive(lost)) {
              Thread.sleep(1);
            }
            buffer.reset();
            buffer.barrier();
            Event _ = dispatch(buffer, batch, me);
            long[] table = peers(launchOf(me));
            assertThat(table[lost]).isZero();
            assertThat(table[(me + 1) % lost]).isNotZero();
            buffer.barrier();
          }
        });
  }

  private static long[] peers(FakeKernels.Launch launch) {
    return FakeCalls.bytes(launch.get("peers"), (long) RANKS * Long.BYTES)
        .toArray(ValueLayout.JAVA_LONG);
  }

  /** Grants go into the memory of the masked rank, as within a host. */
  @Test
  void aRankOfTheOtherHostThatKernelsHaveMaskedIsAdmitted() {
    int masked = RANKS - 1;
    FakeKernels.mask(masked);
    HostRanks.run(
        HOSTS,
        rank -> {
          try (CudaDevice device = CudaDevice.open(0);
              ExpertBuffer buffer = rank.open(config(true));
              Batch batch = new Batch(device, OneRank.TOKENS)) {
            rank.group.barrier(LIMIT);
            if (rank.rank() == 0) {
              batch.fill(0, 1);
              buffer.lowLatencyDispatch(
                  batch.x,
                  batch.routing,
                  LowLatencyDispatchOptions.builder().format(RowFormat.BF16).build());
              assertThat(buffer.isMasked(masked)).isTrue();
              buffer.cleanMask();
              assertThat(buffer.isMasked(masked)).isFalse();
              buffer.updateMask(masked, true);
              assertThat(buffer.isMasked(masked)).isTrue();
              buffer.updateMask(masked, false);
              assertThat(buffer.isMasked(masked)).isFalse();
            }
            rank.group.barrier(LIMIT);
          }
        });
  }

  @Test
  void aRankOfTheOtherHostReturns() throws Exception {
    int lost = RANKS - 1;
    try (ReturningRanks ranks = new ReturningRanks(HOSTS, config(false))) {
      ranks.lose(lost);
      ranks.start(lost);
      ranks.onLive(ranks::takeIn);
      ranks.onLive(
          rank -> {
            try (CudaDevice device = CudaDevice.open(rank % CudaDevice.count());
                Batch batch = new Batch(device, OneRank.TOKENS)) {
              Event _ = dispatch(ranks.buffer(rank), batch, rank);
              ranks.buffer(rank).barrier();
            }
          });
      for (int from = 0; from < RANKS; from++) {
        FakeKernels.Launch launch = launchOf(from);
        assertThat(gone(launch, lost)).isZero();
        long at = peers(launch)[lost] + Long.BYTES * (long) from;
        NativeMemory.putLongRelease(at, 100 + from);
        assertThat(
                NativeMemory.getLongAcquire(peers(launchOf(lost))[lost] + Long.BYTES * (long) from))
            .isEqualTo(100 + from);
      }
      assertThat(FakeDriver.calls("cuIpcOpenMemHandle_v2")).isEmpty();
    }
  }

  @ParameterizedTest
  @ValueSource(
      strings = {"cuMemCreate", "cuMemExportToShareableHandle", "cuMemImportFromShareableHandle"})
  void aRankThatCannotReturnTellsAllOthers(String failing) throws Exception {
    int lost = RANKS - 1;
    try (ReturningRanks ranks = new ReturningRanks(HOSTS, config(false))) {
      ranks.lose(lost);
      ranks.start(lost);
      FakeDriver.failCall(failing, 1, NOT_PERMITTED);
      List<Throwable> refusals = ranks.refusals();
      assertThat(refusals).hasSize(RANKS);
      for (Throwable refusal : refusals) {
        assertThat(refusal).hasMessageContaining(failing + " failed");
      }
      ranks.onLive(ranks::takeIn);
    }
  }
}
