package org.ep4j.cuda.jit;

import static org.assertj.core.api.Assertions.assertThatCode;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.util.List;
import org.ep4j.EngineUnavailableException;
import org.ep4j.cuda.driver.NvJitLink;
import org.junit.jupiter.api.Test;

class LinkedKernelsTest {
  private static final List<DevicePart> PARTS =
      List.of(part("far_combine.cu"), part("shim of NVSHMEM 3.4"));

  private static DevicePart part(String name) {
    return new DevicePart(NvJitLink.Input.LTO_IR, new byte[0], name);
  }

  /** As nvJitLink 13 says it; functions that save what their callers need spill, too. */
  private static String log(int stores, int loads) {
    return """
        ptxas info    : Function properties for ep4j_library_signal
        ptxas         .     48 bytes stack frame, 48 bytes spill stores, 48 bytes spill loads
        ptxas info    : Compiling entry function 'ep4j_far_combine_bf16_exact' for 'sm_90a'
        ptxas info    : Function properties for ep4j_far_combine_bf16_exact
        ptxas         .     72 bytes stack frame, %d bytes spill stores, %d bytes spill loads
        ptxas info    : Used 128 registers, used 1 barriers
        """
        .formatted(stores, loads);
  }

  @Test
  void aKernelThatSpillsIsRefusedWithTheRemedy() {
    assertThatThrownBy(() -> LinkedKernels.refuseSpills("sm_90a", PARTS, log(44, 144)))
        .isInstanceOf(EngineUnavailableException.class)
        .hasMessageStartingWith(
            "far_combine.cu with shim of NVSHMEM 3.4, linked for sm_90a, is not used")
        .hasMessageContaining("ep4j_far_combine_bf16_exact: 128 registers")
        .hasMessageContaining("188 bytes spilled")
        .hasMessageContaining("another wire than 'backend'")
        .hasMessageContaining("EP4J_NVJITLINK");
  }

  @Test
  void functionsThatKernelsCallMaySpill() {
    assertThatCode(() -> LinkedKernels.refuseSpills("sm_90a", PARTS, log(0, 0)))
        .doesNotThrowAnyException();
  }
}
