package org.ep4j.cuda.engine;

/**
 * Parameters of the expand kernel in the order of {@code ExpandParameters} in {@code
 * expand_parameters.cuh}: 8 bytes each.
 */
enum ExpandField {
  CONTROL,
  LOCAL_EXPERTS,
  TOP_K,
  FLAT_ROWS,
  GROUP_STARTS,
  GROUP_ROWS,
  PLACES,
  CACHED,
  FROM_ROWS,
  FROM_SCALES,
  FROM_FACTORS,
  FROM_IDS,
  FROM_WEIGHTS,
  FROM_TOKENS,
  FROM_SOURCES,
  ROWS,
  ROW_BYTES,
  SCALES,
  SCALE_BYTES,
  FACTORS,
  WEIGHTS,
  TOKENS,
  SOURCES,
  LIMIT,
  FILL,
  ZERO,
  GROUP_COUNTS,
  PUSH_WARPS,
  STAGE_BYTES,
  TIMEOUT,
  RECORD,
  HOST_ABORT,
  TICKET,
  COMPLETED
}
