package org.ep4j.engine.host.context;

import org.ep4j.engine.host.context.Staging.Payload;

/** Counters of the high-throughput operations of one rank; written by the thread that runs them. */
public final class TrafficCounters {
  public long dispatches;
  public long combines;
  public long combinesInPlace;
  public long rowsSent;
  public long rowsReceived;
  public long payloadBytesSent;

  public void dispatched(HostHandle handle, Payload payload) {
    dispatches++;
    rowsSent += handle.rowsSent;
    rowsReceived += Math.min(handle.receivedRows, handle.limit);
    payloadBytesSent += handle.rowsSent * (payload.rowBytes + payload.scaleBytes);
  }

  public void combined(boolean rowsInPlace) {
    combines++;
    combinesInPlace += rowsInPlace ? 1 : 0;
  }
}
