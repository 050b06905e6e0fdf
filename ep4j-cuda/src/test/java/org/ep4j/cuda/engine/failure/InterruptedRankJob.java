package org.ep4j.cuda.engine.failure;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.catchThrowableOfType;

import java.time.Duration;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import org.ep4j.Dispatch;
import org.ep4j.DispatchHandle;
import org.ep4j.ExpertBuffer;
import org.ep4j.LowLatencyCombineOptions;
import org.ep4j.LowLatencyDispatch;
import org.ep4j.LowLatencyDispatchOptions;
import org.ep4j.config.BufferConfig;
import org.ep4j.config.HighThroughputConfig;
import org.ep4j.config.Layout;
import org.ep4j.conformance.world.RankJob;
import org.ep4j.error.Ep4jException;
import org.ep4j.error.ErrorCode;
import org.ep4j.error.PeerTimeoutException;
import org.ep4j.group.Group;
import org.ep4j.routing.Routing;
import org.ep4j.tensor.RowFormat;
import org.ep4j.tensor.Tensor;

/**
 * Three ranks; one after the other, each kind of operation: ranks 0 and 1 wait in it for rank 2,
 * which is late, and the thread of rank 0 is interrupted. The others get the reason, long before
 * the timeout, all ranks reset, and the buffer works. Arguments: the engine, ranks per node, 0 for
 * one node, and the wire.
 */
public final class InterruptedRankJob implements RankJob {
  static final int RANKS = 3;
  private static final int LATE = 2;
  private static final int WIDE = 512;

  /** Longer than the job may take: an operation that waits for it fails the test. */
  private static final Duration LONG = Duration.ofMinutes(10);

  private static final Duration UNTIL_ALL_WAIT = Duration.ofMillis(300);

  /** Topic of the notice that the late rank waits for. */
  private static final long ZERO_HAS_FAILED = 0x696e74;

  /** One token to an expert of each rank. */
  private static final Routing EVERYWHERE =
      new Routing(
          Tensor.of(new long[] {0, 1, 2}, 1, RANKS), Tensor.of(new float[] {1, 1, 1}, 1, RANKS));

  private static final LowLatencyDispatchOptions BF16 =
      LowLatencyDispatchOptions.builder().format(RowFormat.BF16).build();

  /** The operation that waits for the late rank, prepared by all ranks. */
  private enum Kind {
    DISPATCH {
      @Override
      Runnable prepare(ExpertBuffer buffer) {
        return () -> buffer.dispatch(rows(1), EVERYWHERE);
      }
    },
    GROUPED_DISPATCH {
      @Override
      Runnable prepare(ExpertBuffer buffer) {
        return () -> buffer.dispatchGrouped(rows(1), EVERYWHERE);
      }
    },
    COMBINE {
      @Override
      Runnable prepare(ExpertBuffer buffer) {
        return combining(buffer, buffer.dispatch(rows(1), EVERYWHERE));
      }
    },
    GROUPED_COMBINE {
      @Override
      Runnable prepare(ExpertBuffer buffer) {
        return combining(buffer, buffer.dispatchGrouped(rows(1), EVERYWHERE));
      }
    },
    LOW_LATENCY_DISPATCH {
      @Override
      Runnable prepare(ExpertBuffer buffer) {
        return () -> buffer.lowLatencyDispatch(rows(1), EVERYWHERE, BF16).event().await();
      }
    },
    LOW_LATENCY_COMBINE {
      @Override
      Runnable prepare(ExpertBuffer buffer) {
        LowLatencyDispatch dispatch = buffer.lowLatencyDispatch(rows(1), EVERYWHERE, BF16);
        Tensor y = dispatch.x();
        return () ->
            buffer.lowLatencyCombine(
                y, EVERYWHERE, dispatch.handle(), LowLatencyCombineOptions.DEFAULT);
      }
    };

    abstract Runnable prepare(ExpertBuffer buffer);

    private static Runnable combining(ExpertBuffer buffer, Dispatch dispatch) {
      DispatchHandle handle = dispatch.handle();
      return () -> buffer.combine(dispatch.x(), handle);
    }
  }

  @Override
  public void run(Group group, List<String> arguments) {
    BufferConfig config =
        BufferConfig.builder()
            .engine(arguments.get(0))
            .hidden(WIDE)
            .topK(RANKS)
            .experts(RANKS)
            .highThroughput(
                HighThroughputConfig.builder()
                    .maxTokens(1)
                    .layouts(Layout.FLAT, Layout.EXPERT_MAJOR)
                    .build())
            .lowLatency(1)
            .ranksPerNode(Integer.parseInt(arguments.get(1)))
            .wire(arguments.get(2))
            .timeout(LONG)
            .build();
    Semaphore zeroHasFailed = new Semaphore(0);
    if (group.rank() == LATE) {
      group.listen(ZERO_HAS_FAILED, (from, notice) -> zeroHasFailed.release());
    }
    try (ExpertBuffer buffer = ExpertBuffer.open(group, config)) {
      for (Kind kind : Kind.values()) {
        Runnable operation = kind.prepare(buffer);
        // Results on the host: kernels of no rank run.
        buffer.barrier();
        if (group.rank() == 0) {
          interrupted(kind, operation);
          group.notice(LATE, ZERO_HAS_FAILED, new byte[0]);
        } else {
          if (group.rank() == LATE) {
            await(zeroHasFailed);
          }
          learned(kind, buffer, operation);
        }
        buffer.reset();
        works(buffer);
        System.out.println("rank " + group.rank() + ": " + kind);
      }
    }
  }

  private static void await(Semaphore event) {
    try {
      assertThat(event.tryAcquire(10, TimeUnit.SECONDS)).as("rank 0 was interrupted").isTrue();
    } catch (InterruptedException e) {
      throw new AssertionError(e);
    }
  }

  private static void interrupted(Kind kind, Runnable operation) {
    Thread waiter = Thread.currentThread();
    Thread.ofVirtual()
        .start(
            () -> {
              LockSupport.parkNanos(UNTIL_ALL_WAIT.toNanos());
              waiter.interrupt();
            });
    Ep4jException error = catchThrowableOfType(Ep4jException.class, operation::run);
    boolean flag = Thread.interrupted();
    assertThat(error).as(kind + ": the operation waits; flag " + flag).isNotNull();
    assertThat(error.errorCode())
        .as(kind + ": " + error.getMessage())
        .isEqualTo(ErrorCode.OPERATION_INTERRUPTED);
    assertThat(flag).as(kind + ": the flag stays set").isTrue();
  }

  /**
   * A rank that had all rows of the operation already learns the reason from one of the next two.
   */
  private static void learned(Kind kind, ExpertBuffer buffer, Runnable operation) {
    PeerTimeoutException error = catchThrowableOfType(PeerTimeoutException.class, operation::run);
    for (int i = 0; i < 2 && error == null; i++) {
      error =
          catchThrowableOfType(
              PeerTimeoutException.class,
              () -> buffer.lowLatencyDispatch(rows(1), EVERYWHERE, BF16).event().await());
    }
    assertThat(error).as(kind + ": rank " + buffer.rank() + " learns nothing").isNotNull();
    assertThat(error.peer()).as(kind + ": " + error.getMessage()).isZero();
    assertThat(error.peerDead()).isFalse();
    assertThat(error)
        .hasMessageContaining("rank 0 has aborted")
        .hasMessageContaining("the thread was interrupted");
  }

  /** Sums of both kinds are right. */
  private static void works(ExpertBuffer buffer) {
    int value = buffer.rank() + 1;
    float sum = RANKS * value;
    Dispatch dispatch = buffer.dispatch(rows(value), EVERYWHERE);
    assertThat(dispatch.rows()).isEqualTo(RANKS);
    try (DispatchHandle handle = dispatch.handle()) {
      assertThat(head(buffer.combine(dispatch.x(), handle).x())).isEqualTo(sum);
    }
    LowLatencyDispatch received = buffer.lowLatencyDispatch(rows(value), EVERYWHERE, BF16);
    assertThat(received.counts().toIntArray()).containsExactly(RANKS);
    Tensor sums =
        buffer
            .lowLatencyCombine(
                received.x(), EVERYWHERE, received.handle(), LowLatencyCombineOptions.DEFAULT)
            .x();
    assertThat(head(sums)).isEqualTo(sum);
  }

  private static float head(Tensor rows) {
    return rows.toFloatArray()[0];
  }

  /** The bits of a whole number below 256. */
  private static short bf16(float value) {
    return (short) (Float.floatToRawIntBits(value) >>> Short.SIZE);
  }

  private static Tensor rows(float value) {
    short[] row = new short[WIDE];
    Arrays.fill(row, bf16(value));
    return Tensor.ofBf16(row, 1, WIDE);
  }
}
