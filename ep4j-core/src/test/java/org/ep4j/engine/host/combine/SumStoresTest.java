package org.ep4j.engine.host.combine;

import static org.assertj.core.api.Assertions.assertThat;

import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** The choice between ways to write sums, with durations that the test makes up. */
class SumStoresTest {
  /** Nanoseconds of a sum of {@code bytes} bytes. */
  private interface Duration {
    long of(int sum, boolean streams, long bytes);
  }

  /** Runs sums of different sizes; returns how many of them were streamed. */
  private static int run(SumStores stores, int from, int to, Duration duration) {
    int streamed = 0;
    for (int i = from; i < to; i++) {
      boolean streams = stores.streams();
      streamed += streams ? 1 : 0;
      long bytes = 1000L * (1 + i % 7);
      stores.took(duration.of(i, streams, bytes), bytes);
    }
    return streamed;
  }

  @ParameterizedTest
  @ValueSource(booleans = {false, true})
  void theFasterStoresRemain(boolean streamingIsFaster) {
    SumStores stores = new SumStores(false);
    Duration duration =
        (i, streams, bytes) ->
            bytes * (streams == streamingIsFaster ? 2 : 3) * (i % 5 == 0 ? 4 : 1);
    assertThat(run(stores, 0, SumStores.ALTERNATING, duration))
        .isEqualTo(SumStores.ALTERNATING / 2);
    assertThat(stores.streams()).isEqualTo(streamingIsFaster);
    int rest = SumStores.LAST - SumStores.ALTERNATING;
    int trials = rest / SumStores.RARE;
    assertThat(run(stores, SumStores.ALTERNATING, SumStores.LAST, duration))
        .isEqualTo(streamingIsFaster ? rest - trials : trials);
    int more = 3 * SumStores.RARE;
    assertThat(run(stores, SumStores.LAST, SumStores.LAST + more, (i, streams, bytes) -> 0))
        .isEqualTo(streamingIsFaster ? more : 0);
  }

  @Test
  void aChoiceOutOfDisturbedTrialsIsCorrected() {
    SumStores stores = new SumStores(false);
    Duration disturbed =
        (i, streams, bytes) -> bytes * (streams ? 3 : i < SumStores.ALTERNATING ? 40 : 2);
    run(stores, 0, SumStores.ALTERNATING, disturbed);
    assertThat(stores.streams()).isTrue();
    run(stores, SumStores.ALTERNATING, SumStores.LAST, disturbed);
    assertThat(stores.streams()).isFalse();
  }

  /** At first one way writes only the sums that are slow in both ways. */
  @Test
  void alternatingShapesDoNotDecide() {
    SumStores stores = new SumStores(false);
    Duration alternating = (i, streams, bytes) -> bytes * (streams ? 3 : 2) * (i % 2 == 0 ? 4 : 1);
    run(stores, 0, SumStores.ALTERNATING, alternating);
    assertThat(stores.streams()).isTrue();
    run(stores, SumStores.ALTERNATING, SumStores.LAST, alternating);
    assertThat(stores.streams()).isFalse();
  }

  @Test
  void codeThatIsNotCompiledYetDoesNotCount() {
    SumStores stores = new SumStores(false);
    Duration cold =
        (i, streams, bytes) ->
            bytes * (i < SumStores.COLD ? (streams ? 1 : 90) : streams ? 20 : 10);
    run(stores, 0, SumStores.ALTERNATING, cold);
    assertThat(stores.streams()).isFalse();
  }

  @Test
  void usersMayDemandNonTemporalStores() {
    SumStores stores = new SumStores(true);
    int sums = 2 * SumStores.LAST;
    assertThat(run(stores, 0, sums, (i, streams, bytes) -> 1)).isEqualTo(sums);
  }
}
