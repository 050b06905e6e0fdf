package org.ep4j.engine.host.exec;

import org.ep4j.engine.throughput.ResultEnd;
import org.ep4j.execution.Event;

/** The end of an operation that ran on the calling thread or is queued. */
public final class HostEnd implements ResultEnd {
  private Event event = Event.completed();

  /** The operation runs on the calling thread: callers get a result that is complete. */
  public void none() {
    event = Event.completed();
  }

  /** The operation is queued. */
  public void queued(Event end) {
    event = end;
  }

  @Override
  public void await() {
    event.await();
  }

  @Override
  public Event event() {
    return event;
  }
}
