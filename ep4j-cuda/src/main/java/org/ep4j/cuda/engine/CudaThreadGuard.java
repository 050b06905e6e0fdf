package org.ep4j.cuda.engine;

import org.ep4j.cuda.engine.context.CudaContext;
import org.ep4j.engine.ThreadGuard;
import org.ep4j.engine.lowlatency.Flights;

/** The thread guard of a buffer; the device is current for the admitted thread. */
final class CudaThreadGuard implements Flights.Entry {
  private final ThreadGuard guard;
  private final CudaContext context;

  CudaThreadGuard(ThreadGuard guard, CudaContext context) {
    this.guard = guard;
    this.context = context;
  }

  @Override
  public void enter() {
    guard.enter();
    context.device.makeCurrent();
  }

  @Override
  public void leave() {
    guard.leave();
  }

  @Override
  public void requireUsable() {
    context.completion.requireUsable();
  }
}
