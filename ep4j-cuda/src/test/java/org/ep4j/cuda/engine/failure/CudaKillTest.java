package org.ep4j.cuda.engine.failure;

import org.ep4j.conformance.KillKit;

class CudaKillTest extends KillKit {
  @Override
  protected String engine() {
    return "cuda";
  }
}
