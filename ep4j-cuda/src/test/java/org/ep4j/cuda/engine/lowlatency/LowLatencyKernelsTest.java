package org.ep4j.cuda.engine.lowlatency;

import static org.assertj.core.api.Assertions.assertThat;

import java.util.Map;
import org.ep4j.cuda.jit.PrebuiltKernels;
import org.junit.jupiter.api.Test;

/** The variable that turns packed flags off, by its name and by its old name. */
class LowLatencyKernelsTest {
  private static final String NEW = PrebuiltKernels.LL_PACKETS_VARIABLE;
  private static final String OLD = "EP4J_CUDA_LINES";

  @Test
  void packetsAreOnByDefaultAndOffWithZero() {
    assertThat(LowLatencyKernels.wantsPackets(Map.of())).isTrue();
    assertThat(LowLatencyKernels.wantsPackets(Map.of(NEW, " 0 "))).isFalse();
    assertThat(LowLatencyKernels.wantsPackets(Map.of(NEW, "1"))).isTrue();
  }

  @Test
  void oldNameIsReadIfTheNewOneIsNotSet() {
    assertThat(LowLatencyKernels.wantsPackets(Map.of(OLD, "0"))).isFalse();
    assertThat(LowLatencyKernels.wantsPackets(Map.of(OLD, "0", NEW, "1"))).isTrue();
  }
}
