package org.ep4j.cuda.fake;

import static org.assertj.core.api.Assertions.assertThat;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.ep4j.ExpertBuffer;
import org.ep4j.config.BufferConfig;
import org.ep4j.cuda.engine.Batch;
import org.ep4j.cuda.fake.FakeDriver.Call;
import org.ep4j.error.Ep4jException;
import org.ep4j.error.ErrorCode;
import org.ep4j.group.Group;
import org.ep4j.group.ThreadRanks;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

/**
 * A call of the driver fails on one of two ranks while they open a buffer: both report the same
 * error without waiting for each other, nothing leaks, and the same group opens the next buffer.
 */
@OnFakeDriver
@Timeout(600)
class FailedOpeningTest {
  private static final int RANKS = 2;
  private static final int LAUNCH_FAILED = 719;
  private static final int OUT_OF_MEMORY = 2;

  /** A rank that waited for the other until its timeout would not end in the time of the test. */
  private static final Duration LONG = Duration.ofMinutes(30);

  private static final boolean FULL = Boolean.getBoolean("ep4j.full");

  /** In an ordinary build, each fifth allocation fails; in a full one, each call of the driver. */
  private static final int STRIDE = FULL ? 1 : 5;

  /** Also in front of a release, which then does not happen. */
  private static final String ENTER = "cuCtxPushCurrent_v2";

  private static BufferConfig config(String wire) {
    BufferConfig.Builder config =
        Batch.config(OneRank.TOKENS).lowLatency(OneRank.TOKENS).timeout(LONG);
    return wire.equals("none") ? config.build() : config.ranksPerNode(1).wire(wire).build();
  }

  /** Another program holds the memory of a GPU, or the host has no more to lock. */
  @ParameterizedTest
  @CsvSource({
    "cuMemAlloc_v2, none",
    "cuMemAlloc_v2, tcp",
    "cuMemAlloc_v2, staged",
    "cuMemHostAlloc, none",
    "cuMemHostAlloc, tcp",
    "cuMemHostAlloc, staged",
    "cuMemHostRegister_v2, tcp",
    "cuMemHostRegister_v2, staged"
  })
  void missingMemoryIsToldToAllRanks(String allocation, String wire) {
    int count = untilOpen(wire).getOrDefault(allocation, 0);
    assertThat(count).isPositive();
    for (int nth = 1; nth <= count; nth += STRIDE) {
      Ep4jException error = failing(wire, allocation, nth, OUT_OF_MEMORY);
      assertThat(error.errorCode()).isEqualTo(ErrorCode.GPU_OUT_OF_MEMORY);
      assertThat(error.getMessage())
          .as("%s %d of %d", allocation, nth, count)
          .containsPattern("rank [01]: .* cannot be prepared")
          .contains(allocation + " failed")
          .containsPattern("[0-9]+ bytes of .*device [0-9]+ .*are wanted")
          .containsPattern("[0-9]+ of [0-9]+ bytes of the (GPU|host) are free")
          .contains("maxTokens");
    }
  }

  @ParameterizedTest
  @ValueSource(strings = {"none", "tcp", "staged"})
  void eachFailureIsToldToAllRanks(String wire) {
    assumeTrue(FULL, "the same steps as of missing memory; -Dep4j.full=true runs it");
    untilOpen(wire)
        .forEach(
            (function, count) -> {
              for (int nth = 1; nth <= count; nth++) {
                Ep4jException error = failing(wire, function, nth, LAUNCH_FAILED);
                assertThat(error.errorCode()).isEqualTo(ErrorCode.CUDA_CALL_FAILED);
                assertThat(error.getMessage())
                    .as("%s %d of %d", function, nth, count)
                    .containsPattern("rank [01]: ")
                    .contains(function + " failed");
              }
            });
    FakeDriver.reset();
  }

  /** How often an opening calls each function of the driver. */
  private static Map<String, Integer> untilOpen(String wire) {
    Map<String, Integer> counts = new TreeMap<>();
    ThreadRanks.run(
        RANKS,
        group -> {
          try (ExpertBuffer buffer = ExpertBuffer.open(group, config(wire))) {
            group.barrier(LONG);
            if (buffer.rank() == 0) {
              FakeDriver.calls().stream()
                  .map(Call::function)
                  .filter(function -> !OpenAndCloseTest.RELEASES.contains(function))
                  .forEach(function -> counts.merge(function, 1, Integer::sum));
            }
            group.barrier(LONG);
          }
        });
    return counts;
  }

  /** The error of both ranks when one call fails. */
  private static Ep4jException failing(String wire, String function, int nth, int code) {
    String what = "%s %d with wire %s".formatted(function, nth, wire);
    FakeDriver.reset();
    FakeKernels.define();
    FakeDriver.failCall(function, nth, code);
    List<Ep4jException> errors =
        ThreadRanks.call(
            RANKS,
            group -> {
              Ep4jException error = failure(group, wire);
              group.barrier(LONG);
              if (!function.equals(ENTER)) {
                assertThat(FakeDriver.live()).as(what).isEmpty();
              }
              group.barrier(LONG);
              ExpertBuffer.open(group, config(wire)).close();
              return error;
            });
    assertThat(errors.getFirst().getMessage()).as(what).isEqualTo(errors.getLast().getMessage());
    return errors.getFirst();
  }

  private static Ep4jException failure(Group group, String wire) {
    try (ExpertBuffer buffer = ExpertBuffer.open(group, config(wire))) {
      throw new AssertionError("opened by rank " + buffer.rank());
    } catch (Ep4jException e) {
      return e;
    }
  }
}
