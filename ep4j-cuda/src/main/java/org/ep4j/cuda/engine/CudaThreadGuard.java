package org.ep4j.cuda.engine;

import org.ep4j.cuda.driver.CudaDevice;
import org.ep4j.cuda.engine.lowlatency.LowLatency;
import org.ep4j.engine.ThreadGuard;

/** The thread guard of a buffer; the device is current for the admitted thread. */
final class CudaThreadGuard implements LowLatency.Entry {
  private final ThreadGuard guard;
  private final CudaDevice device;

  CudaThreadGuard(ThreadGuard guard, CudaDevice device) {
    this.guard = guard;
    this.device = device;
  }

  @Override
  public void enter() {
    guard.enter();
    device.makeCurrent();
  }

  @Override
  public void leave() {
    guard.leave();
  }
}
