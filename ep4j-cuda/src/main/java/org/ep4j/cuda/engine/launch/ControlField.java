package org.ep4j.cuda.engine.launch;

/**
 * Words at the start of each rank's region, 8 bytes each, in the order of {@code Control} in {@code
 * kernels/common/protocol.cuh}, which documents the writers.
 */
public enum ControlField {
  EPOCH,
  ARRIVED,
  ABORT,
  CLAIMED,
  FAILED,
  TICKET,
  ROWS_SENT,
  ROWS_RECEIVED,
  PAYLOAD_BYTES,
  SENDERS,
  JOBS,
  RUNNING,
  FENCED_BY;

  /** Offset from the start of the region. */
  public long offset() {
    return (long) ordinal() * Long.BYTES;
  }
}
