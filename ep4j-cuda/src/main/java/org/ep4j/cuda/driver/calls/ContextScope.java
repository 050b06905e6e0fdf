package org.ep4j.cuda.driver.calls;

/**
 * Makes a context current for the calling thread; closing it restores the previous context. For
 * calls that create and destroy objects; too expensive for calls in stream order.
 */
public final class ContextScope implements AutoCloseable {
  private boolean open = true;

  private ContextScope() {}

  public static ContextScope enter(long context) {
    DeviceCalls.pushCurrent(context);
    return new ContextScope();
  }

  @Override
  public void close() {
    if (open) {
      open = false;
      long ignored = DeviceCalls.popCurrent();
    }
  }
}
