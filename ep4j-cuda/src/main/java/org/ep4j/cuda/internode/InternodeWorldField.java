package org.ep4j.cuda.internode;

/**
 * Fields of {@code InternodeWorld} in {@code kernels/internode/internode.cuh} before its transport,
 * 8 bytes each.
 */
enum InternodeWorldField {
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
  COUNTS_PUBLISHED,
  REMOTE_COUNTS_PUBLISHED,
  PUBLISHED_ROUNDS,
  COUNTS_OUT,
  COUNTS_SOURCE,
  COUNTS_TARGET,
  REMOTE_COUNTS,
  COUNTS_IN,
  COUNT_STRIDE,
  SEEN,
  TRANSPORT
}
