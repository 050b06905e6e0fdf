package org.ep4j.cuda.engine.failure;

import org.ep4j.conformance.ReadmitKit;

/** Three processes, on one GPU or several. */
class CudaReadmitTest extends ReadmitKit {
  @Override
  protected String engine() {
    return "cuda";
  }
}
