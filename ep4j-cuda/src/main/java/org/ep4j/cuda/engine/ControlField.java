package org.ep4j.cuda.engine;

/**
 * Words at the start of each rank's region, in the order of {@code Control} in {@code
 * kernels/protocol.cuh}, which tells who writes them: 8 bytes each.
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

  /** From the start of the region. */
  long offset() {
    return (long) ordinal() * Long.BYTES;
  }
}
