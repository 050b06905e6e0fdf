package org.ep4j.cli;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.IOException;
import java.io.UncheckedIOException;
import org.ep4j.error.ErrorCode;
import org.junit.jupiter.api.Test;

class FailuresTest {
  private static final int FEW = 40;
  private static final int MANY = 1024;

  /** With few descriptors the JDK reports what it could not load, in words of any kind. */
  @Test
  void anUnknownFailureWithFewOpenFilesNamesTheLimit() {
    Throwable failure = new IllegalStateException("no algorithm");

    assertThat(Failures.message(failure, () -> FEW))
        .startsWith(ErrorCode.FEW_OPEN_FILES.id())
        .contains("no algorithm", "40 open files", "ulimit -n");
    assertThat(Failures.message(failure, () -> MANY))
        .startsWith(ErrorCode.COMMAND_FAILED.id())
        .doesNotContain("ulimit");
  }

  @Test
  void aFailureForWantOfDescriptorsNamesAnyLimit() {
    Throwable failure = new UncheckedIOException(new IOException("/tmp/x: Too many open files"));

    assertThat(Failures.message(failure, () -> MANY))
        .startsWith(ErrorCode.FEW_OPEN_FILES.id())
        .contains("1024 open files", "ulimit -n");
  }

  /** Reading the limit would need memory. */
  @Test
  void wantOfMemoryDoesNotReadTheLimit() {
    String message =
        Failures.message(
            new OutOfMemoryError("Java heap space"),
            () -> {
              throw new AssertionError("the limit was read");
            });

    assertThat(message)
        .startsWith(ErrorCode.NOT_ENOUGH_MEMORY.id())
        .contains("EP4J_HEAP", (Runtime.getRuntime().maxMemory() >> 20) + " MiB");
  }

  @Test
  void aFailureWithACodeKeepsItsMessage() {
    String text = ErrorCode.REPORT_SAME_RUN.message("a and b hold the same time");

    assertThat(Failures.message(new IllegalStateException(text), () -> FEW)).isEqualTo(text);
  }
}
