package org.ep4j.cuda.far;

/** Fields of {@code FarPartner} in {@code kernels/far.cuh}, 8 bytes each. */
enum FarPartnerField {
  RANK,
  NODE,
  TAKES,
  GIVES,
  OUT,
  OUT_SOURCE,
  OUT_TARGET,
  IN,
  ARRIVED,
  CREDITS,
  ARRIVED_THERE,
  CREDITS_THERE
}
