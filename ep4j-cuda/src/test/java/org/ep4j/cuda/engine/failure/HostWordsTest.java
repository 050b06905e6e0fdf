package org.ep4j.cuda.engine.failure;

import static org.assertj.core.api.Assertions.assertThat;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import org.ep4j.memory.NativeMemory;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** Validity of kernel reports, and queries of events after their buffer has closed. */
@Timeout(60)
class HostWordsTest {
  private static final int RANKS = 4;
  private static final int ROUNDS = 200;

  // As in protocol.cuh and low_latency.cuh.
  private static final long EPOCH = 8;
  private static final long ATTRIBUTED = 72;
  private static final long LOW_LATENCY = 1L << 62;

  /**
   * Reads return what kernels write while the memory is allocated, and the last values afterwards.
   */
  @Test
  void lateQueriesSeeTheFinalState() {
    Arena arena = Arena.ofShared();
    MemorySegment memory = arena.allocate(HostWords.bytes(RANKS), Long.BYTES);
    HostWords words = new HostWords(memory, 4096, arena::close, RANKS);
    long shift = memory.address() - 4096;
    NativeMemory.putLongRelease(words.completedOnDevice() + shift, 7);
    NativeMemory.putLongRelease(words.recordOnDevice() + shift, HostWords.STATE_TIMEOUT);
    NativeMemory.putLongRelease(words.masksOnDevice() + shift + 2 * Long.BYTES, 1);
    words.close();
    assertThat(arena.scope().isAlive()).isFalse();
    assertThat(words.completed()).isEqualTo(7);
    assertThat(words.state()).isEqualTo(HostWords.STATE_TIMEOUT);
    assertThat(words.masked(2)).isTrue();
    assertThat(words.masked(1)).isFalse();
    // A waiting thread that checks its peers writes too: after close this has no effect.
    words.abort();
    words.gone(3);
    assertThat(words.completed()).isEqualTo(7);
  }

  /** Until the kernel ends, the record may name a rank that another rank delays. */
  @Test
  void timeoutIsVisibleOnlyOnceItIsAttributed() {
    try (Arena arena = Arena.ofConfined()) {
      MemorySegment memory = arena.allocate(HostWords.bytes(RANKS), Long.BYTES);
      HostWords words = new HostWords(memory, memory.address(), () -> {}, RANKS);
      long record = words.recordOnDevice();
      NativeMemory.putLongRelease(record + EPOCH, 5);
      NativeMemory.putLongRelease(record, HostWords.STATE_TIMEOUT);
      assertThat(words.state()).isZero();
      NativeMemory.putLongRelease(record + ATTRIBUTED, 4);
      assertThat(words.state()).isZero();
      NativeMemory.putLongRelease(record + ATTRIBUTED, 5);
      assertThat(words.state()).isEqualTo(HostWords.STATE_TIMEOUT);
      // Reports of low latency and of routings are valid immediately.
      NativeMemory.putLongRelease(record + EPOCH, LOW_LATENCY | 6);
      assertThat(words.state()).isEqualTo(HostWords.STATE_TIMEOUT);
      NativeMemory.putLongRelease(record + EPOCH, 7);
      NativeMemory.putLongRelease(record, HostWords.STATE_DUPLICATE);
      assertThat(words.state()).isEqualTo(HostWords.STATE_DUPLICATE);
    }
  }

  @Test
  void closingIsSafeWhileOthersPoll() throws Exception {
    try (ExecutorService threads = Executors.newSingleThreadExecutor()) {
      for (int round = 0; round < ROUNDS; round++) {
        Arena arena = Arena.ofShared();
        MemorySegment memory = arena.allocate(HostWords.bytes(RANKS), Long.BYTES);
        HostWords words = new HostWords(memory, memory.address(), arena::close, RANKS);
        NativeMemory.putLongRelease(words.completedOnDevice(), 7);
        CountDownLatch begun = new CountDownLatch(1);
        AtomicBoolean enough = new AtomicBoolean();
        Future<Long> polling =
            threads.submit(
                () -> {
                  long seen = 7;
                  while (seen == 7 && !enough.get()) {
                    seen = words.completed();
                    words.gone(1);
                    begun.countDown();
                  }
                  return seen;
                });
        assertThat(begun.await(10, TimeUnit.SECONDS)).isTrue();
        words.close();
        enough.set(true);
        assertThat(polling.get(10, TimeUnit.SECONDS)).isEqualTo(7);
      }
    }
  }
}
