package org.ep4j.engine.world;

import static org.assertj.core.api.Assertions.assertThat;

import org.junit.jupiter.api.Test;

class AbortReportTest {
  private static final long TIMEOUT = 1000;

  /** Rank 1 waited for rank 0; rank 0 has received that report, and waits for rank 2. */
  @Test
  void ofARankThatWaitedForTheReceiverExplainsNoLongWaitForAnother() {
    AbortReport received = new AbortReport(0, false, "is silent").receivedBy(0, 1);

    assertThat(received.explains(2, 501, TIMEOUT)).isFalse();
    assertThat(received.explains(2, 500, TIMEOUT)).isTrue();
    assertThat(received.explains(1, 1000, TIMEOUT)).isTrue();
  }

  @Test
  void ofAnotherCauseExplainsAnyWait() {
    assertThat(new AbortReport(3, false, "is silent").receivedBy(0, 1).explains(2, 1000, TIMEOUT))
        .isTrue();
    assertThat(
            new AbortReport(1, false, "has aborted (…)")
                .receivedBy(0, 1)
                .explains(2, 1000, TIMEOUT))
        .isTrue();
    assertThat(new AbortReport(0, true, "is dead (…)").receivedBy(0, 1).explains(2, 1000, TIMEOUT))
        .isTrue();
  }
}
