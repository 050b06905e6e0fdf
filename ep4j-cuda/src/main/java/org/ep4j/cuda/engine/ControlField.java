package org.ep4j.cuda.engine;

/**
 * Words at the start of each rank's region, 8 bytes each, in the order of {@code Control} in {@code kernels/protocol.cuh}, which documents the writers.
 */
enum ControlField {
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
  long offset() {
    return (long) ordinal() * Long.BYTES;
  }
}
