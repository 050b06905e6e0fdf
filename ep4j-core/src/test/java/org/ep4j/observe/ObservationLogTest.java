package org.ep4j.observe;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.util.Arrays;
import java.util.List;
import java.util.stream.IntStream;
import org.ep4j.error.ErrorCode;
import org.ep4j.error.InvalidArgumentException;
import org.junit.jupiter.api.Test;

class ObservationLogTest {
  private static final int[] EXPERTS = {4, 7};

  @Test
  void aWindowHoldsTheWaitsAndRowsOfItsOperations() {
    ObservationLog log = new ObservationLog(1, 3, EXPERTS);
    operations(log, ObservationLog.WINDOW - 1);
    assertThat(log.snapshot().windows()).isEmpty();

    operations(log, ObservationLog.WINDOW + 1);
    List<RankObservation.Window> windows = log.snapshot().windows();
    assertThat(windows).hasSize(2);
    assertThat(windows.getFirst().waited()).containsExactly(100, 0, 20);
    assertThat(windows.getFirst().rows()).isEqualTo(60);
    assertThat(windows.getFirst().nanos()).isPositive();
    assertThat(windows).extracting(RankObservation.Window::number).containsExactly(0L, 1L);
  }

  @Test
  void theLastWindowsAreKeptAndTokensAreCountedOn() {
    ObservationLog log = new ObservationLog(1, 3, EXPERTS);
    operations(log, 25 * ObservationLog.WINDOW);
    RankObservation seen = log.snapshot();
    assertThat(seen.windows())
        .extracting(RankObservation.Window::number)
        .containsExactlyElementsOf(IntStream.range(15, 25).mapToObj(i -> (long) i).toList());
    assertThat(seen.windows()).allMatch(window -> window.waitedFor(0) == 100);

    log.restart();
    assertThat(log.snapshot().windows()).isEmpty();
    assertThat(log.snapshot().tokens(1)).isEqualTo(25L * ObservationLog.WINDOW * 2);
    operations(log, ObservationLog.WINDOW);
    assertThat(log.snapshot().windows()).hasSize(1);
  }

  @Test
  void anOperationKnowsItsLongestWait() {
    ObservationLog log = new ObservationLog(1, 3, EXPERTS);
    assertThat(log.longestWaitFor()).isEqualTo(-1);
    log.waited(2, 3);
    log.waited(0, 9);
    log.waited(2, 4);
    log.received(2, 10);
    assertThat(log.longestWaitFor()).isEqualTo(0);
    assertThat(log.longestWait()).isEqualTo(9);
    assertThat(log.operationWaited()).isEqualTo(16);
    assertThat(log.operationBytes()).isEqualTo(20);
    log.operationEnded();
    assertThat(log.longestWaitFor()).isEqualTo(-1);
    assertThat(log.operationWaited() + log.operationRows() + log.operationBytes()).isZero();
  }

  /** A reader beside the writer sees whole windows: each has the same waits. */
  @Test
  void snapshotsBesideTheWriterHoldWholeWindows() throws Exception {
    ObservationLog log = new ObservationLog(1, 3, EXPERTS);
    Thread writer = Thread.ofPlatform().start(() -> operations(log, 3_000_000));
    int seen = 0;
    while (writer.isAlive()) {
      List<RankObservation.Window> windows = log.snapshot().windows();
      seen += windows.size();
      assertThat(windows).allMatch(w -> Arrays.equals(w.waited(), new long[] {100, 0, 20}));
      assertThat(windows).allMatch(window -> window.rows() == 60);
    }
    writer.join(60_000);
    assertThat(seen).isPositive();
  }

  @Test
  void bytesThatAreNoObservationAreRefused() {
    ObservationLog log = new ObservationLog(1, 3, EXPERTS);
    operations(log, ObservationLog.WINDOW);
    byte[] encoded = log.snapshot().encode();
    assertThat(WorldObservation.decode(List.of(encoded)).observed()).containsExactly(1);
    refused(List.of());
    refused(List.of(new byte[0]));
    refused(List.of(Arrays.copyOf(encoded, encoded.length - 1)));
    refused(List.of(Arrays.copyOf(encoded, encoded.length + 1)));
    byte[] anotherRank = encoded.clone();
    anotherRank[3] = 3;
    refused(List.of(anotherRank));
    byte[] negative = encoded.clone();
    negative[8] = -1;
    refused(List.of(negative));
    refused(List.of(encoded, new ObservationLog(0, 2, EXPERTS).snapshot().encode()));
  }

  private static void refused(List<byte[]> encoded) {
    assertThatThrownBy(() -> WorldObservation.decode(encoded))
        .isInstanceOf(InvalidArgumentException.class)
        .hasMessageStartingWith(ErrorCode.NO_OBSERVATION.id());
  }

  private static void operations(ObservationLog log, int count) {
    for (int i = 0; i < count; i++) {
      log.waited(0, 5);
      log.waited(2, 1);
      log.received(3, 10);
      log.expert(1, 2);
      log.operationEnded();
    }
  }
}
