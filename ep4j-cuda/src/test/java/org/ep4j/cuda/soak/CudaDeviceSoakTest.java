package org.ep4j.cuda.soak;

import org.ep4j.cuda.driver.Gpu;

/** On the GPUs of this machine, one rank each as far as available. */
class CudaDeviceSoakTest extends DeviceSoakKit {
  @Override
  void requireMachine() {
    Gpu.require(1);
  }

  @Override
  String engine() {
    return "cuda";
  }

  @Override
  SoakMachine machine(int rank) {
    return new GpuMachine(rank);
  }

  @Override
  long epochs() {
    return 1500;
  }

  @Override
  int maxTokens() {
    return 256;
  }
}
