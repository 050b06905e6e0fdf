package org.ep4j.engine.host;

/** Counters of the low-latency operations of one rank; rows and bytes are those of dispatches. */
final class LowLatencyCounters {
  long dispatches;
  long combines;
  long rowsSent;
  long rowsReceived;
  long payloadBytesSent;

  void sent(long rows, long payloadBytes) {
    rowsSent += rows;
    payloadBytesSent += payloadBytes;
  }

  void received(long rows) {
    rowsReceived += rows;
  }
}
