package org.ep4j.cuda.fake;

import static org.assertj.core.api.Assertions.assertThat;

import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.ep4j.Dispatch;
import org.ep4j.DispatchOptions;
import org.ep4j.ExpertBuffer;
import org.ep4j.Sizing;
import org.ep4j.Tokens;
import org.ep4j.cuda.driver.CudaDevice;
import org.ep4j.cuda.engine.Batch;
import org.ep4j.execution.Event;
import org.ep4j.execution.Execution;
import org.ep4j.group.Group;
import org.ep4j.group.ThreadRanks;
import org.ep4j.memory.NativeMemory;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** A rank closes its buffer while another one is in an operation. */
@OnFakeDriver
class ClosedRankTest {
  private static final int SECONDS = 60;

  @Test
  @Timeout(SECONDS)
  void theKernelThatWaitsForAClosedRankIsTold() {
    CountDownLatch waiting = new CountDownLatch(1);
    ThreadRanks.run(
        2,
        group -> {
          try (ExpertBuffer buffer = OneRank.openBuffer(group)) {
            if (group.rank() == 0) {
              waitForTheOther(group, buffer, waiting);
            } else {
              assertThat(waiting.await(SECONDS, TimeUnit.SECONDS)).isTrue();
            }
          }
        });
  }

  private static void waitForTheOther(Group group, ExpertBuffer buffer, CountDownLatch waiting)
      throws InterruptedException {
    try (CudaDevice device = CudaDevice.open(0);
        Batch batch = new Batch(device, OneRank.TOKENS)) {
      batch.fill(group.rank(), 1);
      FakeDriver.hold();
      Dispatch dispatch =
          buffer.dispatch(
              Tokens.of(batch.x),
              batch.routing,
              DispatchOptions.builder()
                  .sizing(Sizing.atMost(2 * OneRank.TOKENS))
                  .execution(Execution.ASYNCHRONOUS)
                  .build());
      Event end = dispatch.event();
      Thread waiter = Thread.ofPlatform().start(end::await);
      // Behind the word that ends all waits: one by rank.
      long abort = FakeKernels.launches().getLast().get("host_abort");
      assertThat(NativeMemory.getLongAcquire(gone(abort, 1))).isZero();
      waiting.countDown();
      long deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(SECONDS);
      while (NativeMemory.getLongAcquire(gone(abort, 1)) == 0) {
        assertThat(System.nanoTime()).isLessThan(deadline);
      }
      assertThat(NativeMemory.getLongAcquire(abort)).isZero();
      FakeDriver.release();
      waiter.join();
    }
  }

  private static long gone(long abort, int rank) {
    return abort + (1L + rank) * Long.BYTES;
  }
}
