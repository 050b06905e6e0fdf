package org.ep4j.cuda.fake;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.catchThrowableOfType;
import static org.assertj.core.api.Assertions.tuple;

import java.time.Duration;
import org.ep4j.DispatchOptions;
import org.ep4j.ExpertBuffer;
import org.ep4j.Sizing;
import org.ep4j.Tokens;
import org.ep4j.conformance.world.FlightRecording;
import org.ep4j.cuda.driver.CudaDevice;
import org.ep4j.cuda.engine.Batch;
import org.ep4j.error.Ep4jException;
import org.ep4j.error.ErrorCode;
import org.ep4j.error.PeerTimeoutException;
import org.ep4j.execution.Event;
import org.ep4j.execution.Execution;
import org.ep4j.group.Group;
import org.ep4j.group.ThreadRanks;
import org.ep4j.memory.NativeMemory;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

/** An operation of rank 0 ends early on the host while kernels of all ranks wait. */
@OnFakeDriver
@Timeout(60)
class FailedRankTest {
  private static final int RANKS = 2;
  private static final int LAUNCH_FAILED = 719;
  private static final Duration LIMIT = Duration.ofSeconds(30);

  /** By rank, the address of the word that ends all waits of its kernels. */
  private final long[] words = new long[RANKS];

  /** What ends the operation of rank 0. */
  enum Failure {
    INTERRUPT(ErrorCode.OPERATION_INTERRUPTED, "the thread was interrupted"),
    DRIVER(ErrorCode.GPU_FAILED, "the GPU has failed");

    private final ErrorCode code;
    private final String reason;

    Failure(ErrorCode code, String reason) {
      this.code = code;
      this.reason = reason;
    }

    void happen() {
      if (this == INTERRUPT) {
        Thread.currentThread().interrupt();
      } else {
        FakeDriver.failCall("cuStreamQuery", 1, LAUNCH_FAILED);
      }
    }
  }

  @ParameterizedTest
  @EnumSource(Failure.class)
  void kernelsOfTheOthersAreToldAndErrorsNameTheReason(Failure failure) {
    ThreadRanks.run(
        RANKS,
        group -> {
          try (CudaDevice device = CudaDevice.open(group.rank() % CudaDevice.count());
              ExpertBuffer buffer = OneRank.openBuffer(group);
              Batch batch = new Batch(device, OneRank.TOKENS)) {
            batch.fill(group.rank(), 1);
            if (group.rank() == 0) {
              FakeKernels.reportTimeout();
              FakeDriver.hold();
            }
            group.barrier(LIMIT);
            Event end = dispatch(buffer, batch);
            group.barrier(LIMIT);
            if (group.rank() == 0) {
              findWords();
              assertThat(aborts(1)).isZero();
              fail(buffer, failure);
            }
            group.barrier(LIMIT);
            if (group.rank() == 1) {
              learn(end, failure);
              assertThat(buffer.observe().timeouts()).isEqualTo(1);
              assertThat(buffer.observe().timeoutPeer()).isZero();
            }
            group.barrier(LIMIT);
            recover(group, buffer);
          }
        });
  }

  @Test
  void theFailureAndItsEndAreInTheFlightRecorder() {
    try (FlightRecording recording = new FlightRecording()) {
      kernelsOfTheOthersAreToldAndErrorsNameTheReason(Failure.INTERRUPT);
      recording.stop();
      String reason = Failure.INTERRUPT.reason;
      assertThat(recording.events("Abort"))
          .extracting(
              e -> e.getInt("rank"),
              e -> e.getBoolean("received"),
              e -> e.getInt("from"),
              e -> e.getInt("failedRank"),
              e -> e.getString("state").contains(reason))
          .containsExactlyInAnyOrder(tuple(0, false, 0, 0, true), tuple(1, true, 0, 0, true));
      assertThat(recording.events("Timeout"))
          .extracting(e -> e.getInt("rank"), e -> e.getInt("peer"), e -> e.getString("operation"))
          .containsExactly(tuple(1, 0, "dispatch"));
      assertThat(recording.events("Reset"))
          .extracting(
              e -> e.getInt("rank"), e -> e.getString("excluded"), e -> e.getString("failure"))
          .containsExactlyInAnyOrder(tuple(0, "", ""), tuple(1, "", ""));
      assertThat(recording.events("Reset"))
          .allMatch(e -> e.getLong("number") > 0 && e.getDuration().isPositive());
    }
  }

  private static Event dispatch(ExpertBuffer buffer, Batch batch) {
    return buffer
        .dispatch(
            Tokens.of(batch.x),
            batch.routing,
            DispatchOptions.builder()
                .sizing(Sizing.atMost(RANKS * OneRank.TOKENS))
                .execution(Execution.ASYNCHRONOUS)
                .build())
        .event();
  }

  /** No other rank calls the driver meanwhile. */
  private void findWords() {
    for (FakeKernels.Launch launch : FakeKernels.launches()) {
      if (launch.kernel().equals(FakeKernels.DISPATCH)) {
        words[(int) launch.get("rank")] = launch.get("host_abort");
      }
    }
  }

  /** The word that ends all waits of a rank's kernels. */
  private long aborts(int rank) {
    return NativeMemory.getLongAcquire(words[rank]);
  }

  private static void fail(ExpertBuffer buffer, Failure failure) {
    failure.happen();
    Ep4jException error = catchThrowableOfType(Ep4jException.class, buffer::barrier);
    assertThat(error.errorCode()).as(error.getMessage()).isEqualTo(failure.code);
    assertThat(Thread.interrupted()).isEqualTo(failure == Failure.INTERRUPT);
  }

  /** The thread of rank 1 was in no call of the buffer meanwhile. */
  private void learn(Event end, Failure failure) {
    assertThat(aborts(1)).isEqualTo(1);
    FakeDriver.release();
    PeerTimeoutException error = catchThrowableOfType(PeerTimeoutException.class, end::await);
    assertThat(error.errorCode()).isEqualTo(ErrorCode.PEER_TIMEOUT);
    assertThat(error.peer()).isZero();
    assertThat(error.peerDead()).isFalse();
    assertThat(error)
        .hasMessageContaining("rank 0 has aborted")
        .hasMessageContaining(failure.reason);
  }

  private void recover(Group group, ExpertBuffer buffer) {
    buffer.reset();
    group.barrier(LIMIT);
    assertThat(aborts(group.rank())).isZero();
    buffer.barrier();
  }
}
