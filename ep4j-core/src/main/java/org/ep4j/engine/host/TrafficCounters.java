package org.ep4j.engine.host;

/** Counters of the high-throughput operations of one rank; written by the thread that runs them. */
final class TrafficCounters {
  long dispatches;
  long combines;
  long rowsSent;
  long rowsReceived;
  long payloadBytesSent;

  void dispatched(HostHandle handle, Payload payload) {
    dispatches++;
    rowsSent += handle.rowsSent;
    rowsReceived += Math.min(handle.receivedRows, handle.limit);
    payloadBytesSent += handle.rowsSent * (payload.rowBytes + payload.scaleBytes);
  }

  void combined() {
    combines++;
  }
}
