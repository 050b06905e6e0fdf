package org.ep4j.cuda.probe;

import static org.assertj.core.api.Assertions.assertThat;

import org.ep4j.cuda.driver.CudaDevice;
import org.ep4j.cuda.driver.Gpu;
import org.junit.jupiter.api.Test;

class HostLinkProbeTest {
  @Test
  void copiesInBothDirectionsTakeTime() {
    Gpu.require(1);
    try (CudaDevice device = CudaDevice.open(0);
        HostLinkProbe probe = HostLinkProbe.open(device)) {
      // No current link is a hundred times faster or slower than 20 GB/s.
      assertThat(probe.measure(1)).isBetween(0.2, 2000.0);
      assertThat(probe.measure(4)).isBetween(0.2, 2000.0);
    }
  }
}
