package org.ep4j.engine.host.lowlatency;

/** Counters of the low-latency operations of one rank; rows and bytes are those of dispatches. */
public final class LowLatencyCounters {
  public long dispatches;
  public long combines;
  public long rowsSent;
  public long rowsReceived;
  public long payloadBytesSent;

  void sent(long rows, long payloadBytes) {
    rowsSent += rows;
    payloadBytesSent += payloadBytes;
  }

  void received(long rows) {
    rowsReceived += rows;
  }
}
