package org.ep4j.wire.support;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.time.Duration;
import java.util.List;
import org.ep4j.error.ErrorCode;
import org.ep4j.group.ThreadRanks;
import org.ep4j.wire.WireException;
import org.junit.jupiter.api.Test;

class CollectiveStepTest {
  private static final Duration LIMIT = Duration.ofSeconds(20);

  @Test
  void everyRankGetsTheErrorsOfTheFirstRanksWithTheirCodes() {
    assertMessage(
        List.of(
            ErrorCode.WIRE_CONNECT.message("nothing came"),
            "",
            ErrorCode.VERBS_NO_ENCRYPTION.message("no key"),
            ErrorCode.WIRE_CONNECT.message("nothing came"),
            ErrorCode.WIRE_CONNECT.message("no route"),
            "without a code",
            "another without a code"),
        ErrorCode.WIRE_CONNECT.message("rank 0: nothing came; rank 2: ")
            + ErrorCode.VERBS_NO_ENCRYPTION.message(
                "no key; rank 4: no route; and 2 other errors"));
  }

  @Test
  void anErrorWithoutACodeGetsOne() {
    assertMessage(List.of("", "no code"), ErrorCode.WIRE_FAILED.message("rank 1: no code"));
  }

  /** For example of a native library that lacks a function. */
  @Test
  void anErrorOfLinkingIsForAllRanks() {
    assertThat(
            CollectiveStep.attempt(
                () -> {
                  throw new ExceptionInInitializerError(new IllegalStateException("no function"));
                }))
        .startsWith(ErrorCode.WIRE_FAILED.message(""))
        .contains("no function");
  }

  private static void assertMessage(List<String> errors, String message) {
    ThreadRanks.run(
        errors.size(),
        LIMIT,
        group ->
            assertThatThrownBy(
                    () ->
                        CollectiveStep.exchange(
                            group, errors.get(group.rank()), new byte[0], LIMIT))
                .isInstanceOf(WireException.class)
                .hasMessage(message));
  }
}
