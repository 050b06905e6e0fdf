package org.ep4j.cuda.engine;

/**
 * Parameters of the combine kernel in the order of {@code CombineParameters} in {@code
 * combine_parameters.cuh}: 8 bytes each.
 */
enum CombineField {
  PEERS,
  RANK,
  RANKS,
  TOP_K,
  TOKENS,
  WAYS,
  MATRIX,
  PLACES,
  Y,
  HIDDEN,
  COLUMN,
  COLUMNS,
  WEIGHTS,
  OUT,
  BIAS0,
  BIAS1,
  OUT_WEIGHTS,
  READY_OFFSET,
  GROUPS_OFFSET,
  GROUP_WORDS,
  HOME_OFFSET,
  HOME_ROW_BYTES,
  HOME_WEIGHTS_OFFSET,
  PUSH_WARPS,
  STAGE_BYTES,
  TIMEOUT,
  RECORD,
  HOST_ABORT,
  TICKET,
  COMPLETED,
  FAR,
  FAR_WAYS,
  FAR_TOKENS,
  CHUNK_TOKENS,
  ROUNDED,
  RETURN_WARPS,
  SUM_WARPS,
  INLET_BYTES,
  PARTS
}
