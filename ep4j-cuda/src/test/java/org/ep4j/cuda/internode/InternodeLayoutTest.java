package org.ep4j.cuda.internode;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import org.junit.jupiter.api.Test;

class InternodeLayoutTest {
  private static final int RANKS = 6;
  private static final int PARTNERS = 3;
  private static final InternodeSizes SIZES =
      new InternodeSizes(77, 300_000, 10_000, 20_000, 640, 30, 0);

  private final InternodeLayout layout = new InternodeLayout(RANKS, SIZES);

  /** A kernel's state of each ring has exactly one entry per slot. */
  @Test
  void kernelsHaveTheSameNumberOfSlots() throws IOException {
    try (InputStream source =
        InternodeLayoutTest.class.getResourceAsStream(
            "/org/ep4j/cuda/kernels/internode/internode.cuh")) {
      assertThat(source).isNotNull();
      assertThat(new String(source.readAllBytes(), StandardCharsets.UTF_8))
          .contains("constexpr u32 MAX_SLOTS = " + InternodeLayout.SLOTS + ";");
    }
  }

  @Test
  void partsOfReceiveMemoryAreContiguous() {
    assertThat(layout.countStride()).isGreaterThanOrEqualTo(77).isEven();
    assertThat(layout.counts(RANKS)).isLessThanOrEqualTo(layout.lowLatency);
    assertThat(layout.lowLatency + 10_000).isLessThanOrEqualTo(layout.rings);
    assertThat(layout.slotBytes).isGreaterThanOrEqualTo(300_000).isEqualTo(layout.slotBytes & -128);
    assertThat(layout.rings + PARTNERS * InternodeLayout.SLOTS * layout.slotBytes)
        .isEqualTo(layout.incomingBytes(PARTNERS));
  }

  @Test
  void partsOfOutgoingMemoryAreContiguous() {
    assertThat(layout.counts(1)).isLessThanOrEqualTo(layout.staging);
    assertThat(layout.staging + 20_000).isLessThanOrEqualTo(layout.outgoingRings);
    assertThat(layout.outgoingRings + PARTNERS * InternodeLayout.SLOTS * layout.slotBytes)
        .isEqualTo(layout.outgoingBytes(PARTNERS));
  }

  @Test
  void everyCounterHasOnePurpose() {
    boolean[] used = new boolean[layout.counters(PARTNERS)];
    for (int rank = 0; rank < RANKS; rank++) {
      take(used, layout.countsPublished(rank), 1);
    }
    for (int place = 0; place < PARTNERS; place++) {
      take(used, layout.arrived(place), InternodeLayout.SLOTS);
      take(used, layout.credits(place), InternodeLayout.SLOTS);
    }
    take(used, layout.firstLowLatency(PARTNERS), 30);
    take(used, layout.quiesce(PARTNERS), RANKS);
    take(used, layout.closed(PARTNERS), RANKS);
    assertThat(used).doesNotContain(false);
  }

  private static void take(boolean[] used, int first, int count) {
    for (int i = first; i < first + count; i++) {
      assertThat(used[i]).as("counter %d is used twice", i).isFalse();
      used[i] = true;
    }
  }
}
