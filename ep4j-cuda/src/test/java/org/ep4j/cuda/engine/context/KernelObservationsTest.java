package org.ep4j.cuda.engine.context;

import static org.assertj.core.api.Assertions.assertThat;

import java.util.Objects;
import org.ep4j.cuda.jit.KernelSources;
import org.ep4j.cuda.struct.ObservedWindows;
import org.ep4j.observe.ObservationLog;
import org.junit.jupiter.api.Test;

class KernelObservationsTest {
  private static final int RANKS = 3;
  private static final int EXPERTS = 5;

  /** Kernels write windows that the host reads. */
  @Test
  void kernelsUseTheSameWindows() {
    String kernels =
        Objects.requireNonNull(
            KernelSources.of("dispatch/dispatch.cu").files().get("common/observation.cuh"));
    assertThat(kernels)
        .contains("constexpr u64 WINDOW = " + ObservationLog.WINDOW + ";")
        .contains("constexpr u64 WINDOWS = " + (ObservationLog.KEPT + 2) + ";")
        .contains("enum ObservedWindow { WINDOW_ENDED, WINDOW_ROWS, WINDOW_WORDS };");
    long record = (2 + RANKS + EXPERTS) * (long) Long.BYTES;
    assertThat(KernelObservations.bytes(RANKS, EXPERTS))
        .isEqualTo(ObservedWindows.WORDS.bytes() + (ObservationLog.KEPT + 2) * record);
  }
}
