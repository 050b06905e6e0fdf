package org.ep4j.cuda.engine.launch;

/**
 * Parameters of the layout kernel, 8 bytes each, in the order of {@code LayoutParameters} in {@code
 * layout.cu}.
 */
public enum LayoutField {
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
