package org.ep4j.cuda.internode;

/** Fields of {@code InternodePartner} in {@code kernels/internode/internode.cuh}, 8 bytes each. */
enum InternodePartnerField {
  RANK,
  NODE,
  IS_RECEIVER,
  IS_SENDER,
  OUT,
  OUT_SOURCE,
  OUT_TARGET,
  IN,
  ARRIVED,
  CREDITS,
  REMOTE_ARRIVED,
  REMOTE_CREDITS
}
