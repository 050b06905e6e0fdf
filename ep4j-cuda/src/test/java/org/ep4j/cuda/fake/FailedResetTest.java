package org.ep4j.cuda.fake;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.catchThrowableOfType;

import java.time.Duration;
import java.util.List;
import org.ep4j.ExpertBuffer;
import org.ep4j.config.BufferConfig;
import org.ep4j.cuda.engine.Batch;
import org.ep4j.error.Ep4jException;
import org.ep4j.error.ErrorCode;
import org.ep4j.group.ThreadRanks;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** A call of the driver fails on one rank while ranks of two nodes reset their buffer. */
@OnFakeDriver
@Timeout(60)
class FailedResetTest {
  private static final int RANKS = 2;

  /** A rank that waited for the other until its timeout would not end in the time of the test. */
  private static final Duration LONG = Duration.ofMinutes(10);

  private static final BufferConfig CONFIG =
      Batch.config(OneRank.TOKENS)
          .lowLatency(OneRank.TOKENS)
          .timeout(LONG)
          .ranksPerNode(1)
          .wire("tcp")
          .build();

  /** The proxy of each rank gets new memory. */
  @ParameterizedTest
  @CsvSource({
    "cuMemAlloc_v2, 2, 6108",
    "cuMemHostAlloc, 2, 6108",
    "cuMemcpyHtoD_v2, 719, 6100",
    "cuMemsetD8Async, 719, 6100"
  })
  void bothRanksLearnItAndCanResetAgain(String call, int result, int code) {
    List<Ep4jException> errors =
        ThreadRanks.call(
            RANKS,
            group -> {
              try (ExpertBuffer buffer = ExpertBuffer.open(group, CONFIG)) {
                group.barrier(LONG);
                if (group.rank() == 0) {
                  FakeDriver.failCall(call, 1, result);
                }
                group.barrier(LONG);
                Ep4jException error = catchThrowableOfType(Ep4jException.class, buffer::reset);
                group.barrier(LONG);
                assertThat(catchThrowableOfType(IllegalStateException.class, buffer::barrier))
                    .hasMessageStartingWith(ErrorCode.RESET_NEEDED.id());
                buffer.reset();
                buffer.barrier();
                return error;
              }
            });
    for (Ep4jException error : errors) {
      assertThat(error)
          .hasMessageContaining("EP4J-" + code + ": rank ")
          .hasMessageContaining(call + " failed");
    }
    assertThat(errors)
        .extracting(error -> error.errorCode())
        .containsOnlyOnce(ErrorCode.PEER_FAILED);
  }
}
