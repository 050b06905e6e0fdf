package org.ep4j.cuda.engine;

/**
 * Parameters of the layout kernel in the order of {@code LayoutParameters} in {@code layout.cu}: 8
 * bytes each.
 */
enum LayoutField {
  CONTROL,
  RANKS,
  EXPERTS,
  PLACEMENT,
  TOKENS,
  TOP_K,
  IDS,
  WIDE_IDS,
  PER_RANK,
  PER_NODE,
  PER_EXPERT,
  IN_RANK,
  NODE_OF,
  RECORD
}
