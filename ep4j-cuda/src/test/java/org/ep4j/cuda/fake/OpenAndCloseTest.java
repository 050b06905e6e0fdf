package org.ep4j.cuda.fake;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.ep4j.ExpertBuffer;
import org.ep4j.cuda.fake.FakeDriver.Call;
import org.ep4j.error.ErrorCode;
import org.ep4j.group.ThreadRanks;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

/** A closed buffer and a failed opening leave nothing behind. */
@OnFakeDriver
class OpenAndCloseTest {
  private static final int LAUNCH_FAILED = 719;

  /** Calls of each function that fail in an ordinary build; in a full one each call fails. */
  private static final int MAX_FAILING = 6;

  /** A driver that refuses to release something keeps it. */
  static final Set<String> RELEASES =
      Set.of(
          "cuMemFree_v2",
          "cuMemFreeHost",
          "cuStreamDestroy_v2",
          "cuModuleUnload",
          "cuDevicePrimaryCtxRelease_v2",
          "cuCtxPopCurrent_v2");

  @ParameterizedTest
  @ValueSource(ints = {1, 2, 3})
  void aClosedBufferHasReleasedAllThatItCreated(int ranks) {
    openAndClose(ranks);
    assertThat(FakeDriver.calls("cuMemAlloc_v2")).isNotEmpty();
    assertThat(FakeDriver.calls("cuModuleLoadDataEx")).isNotEmpty();
    assertThat(FakeDriver.live()).isEmpty();
  }

  @ParameterizedTest
  @CsvSource({
    "cuStreamCreateWithPriority, 2, cuStreamDestroy_v2",
    "cuModuleLoadDataEx, 0, cuModuleUnload",
    "cuMemHostAlloc, 2, cuMemFreeHost"
  })
  void objectsAreReleasedInReverseOrder(String creator, int handle, String releaser) {
    openAndClose(1);
    List<Long> created =
        FakeDriver.calls(creator).stream().map(call -> call.argument(handle)).toList();
    List<Long> released =
        FakeDriver.calls(releaser).stream().map(call -> call.argument(0)).toList();
    assertThat(released).hasSizeGreaterThan(1).isEqualTo(created.reversed());
  }

  @Test
  void theContextIsReleasedLast() {
    openAndClose(1);
    assertThat(FakeDriver.calls().getLast().function()).isEqualTo("cuDevicePrimaryCtxRelease_v2");
  }

  @Test
  void eachCallThatFailsWhileOpeningIsReportedAndNothingLeaks() {
    ThreadRanks.run(1, group -> OneRank.openBuffer(group).close());
    List<Call> complete = untilOpen();
    List<String> leaks = new ArrayList<>();
    Map<String, Integer> failed = new HashMap<>();
    for (int nth = 1; nth <= complete.size(); nth++) {
      String failing = complete.get(nth - 1).function();
      if (failed.merge(failing, 1, Integer::sum) > MAX_FAILING
          && !Boolean.getBoolean("ep4j.full")) {
        continue;
      }
      FakeDriver.reset();
      FakeKernels.define();
      FakeDriver.failCall(nth, LAUNCH_FAILED);
      assertThatThrownBy(() -> openAndClose(1))
          .as("call %d, %s", nth, failing)
          .rootCause()
          .hasMessageContaining(failing)
          .hasMessageStartingWith(ErrorCode.CUDA_CALL_FAILED.id());
      if (!RELEASES.contains(failing) && !FakeDriver.live().isEmpty()) {
        leaks.add("call " + nth + ", " + failing + ": " + FakeDriver.live());
      }
      assertThat(FakeDriver.misuse()).as("after call %d, %s", nth, failing).isEmpty();
    }
    assertThat(leaks).isEmpty();
    FakeDriver.reset();
  }

  @ParameterizedTest
  @ValueSource(
      strings = {
        "cuMemAlloc_v2",
        "cuMemHostAlloc",
        "cuStreamCreateWithPriority",
        "cuModuleLoadDataEx",
        "cuCtxEnablePeerAccess"
      })
  void aFailureOnOneOfTwoRanksEndsBothOpeningsAndNothingLeaks(String failing) {
    FakeDriver.failCall(failing, 2, LAUNCH_FAILED);
    assertThatThrownBy(() -> openAndClose(2)).hasStackTraceContaining(failing);
    assertThat(FakeDriver.live()).isEmpty();
  }

  /** The calls of an opening. */
  private static List<Call> untilOpen() {
    FakeDriver.reset();
    FakeKernels.define();
    List<Call> calls = new ArrayList<>();
    ThreadRanks.run(
        1,
        group -> {
          try (ExpertBuffer buffer = OneRank.openBuffer(group)) {
            assertThat(buffer.engine()).isEqualTo("cuda");
            calls.addAll(FakeDriver.calls());
          }
        });
    return calls;
  }

  private static void openAndClose(int ranks) {
    ThreadRanks.run(ranks, group -> OneRank.openBuffer(group).close());
  }
}
