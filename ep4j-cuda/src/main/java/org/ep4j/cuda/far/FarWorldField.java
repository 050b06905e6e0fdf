package org.ep4j.cuda.far;

/** Fields of {@code FarWorld} in {@code kernels/far.cuh}, 8 bytes each, before its carrier. */
enum FarWorldField {
  FIRST,
  END,
  NODES,
  NODE,
  NODE_OF,
  PARTNERS,
  PARTNER,
  RAIL_TO,
  SLOTS,
  SLOT_BYTES,
  MAPPED,
  LANES,
  SENT,
  TAKEN,
  TOLD,
  TOLD_THERE,
  TELLINGS,
  COUNTS_OUT,
  COUNTS_SOURCE,
  COUNTS_TARGET,
  COUNTS_THERE,
  COUNTS_IN,
  COUNT_STRIDE,
  SEEN,
  CARRIER
}
