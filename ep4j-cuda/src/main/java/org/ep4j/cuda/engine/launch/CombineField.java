package org.ep4j.cuda.engine.launch;

/**
 * Parameters of the combine kernel, 8 bytes each, in the order of {@code CombineParameters} in
 * {@code combine_parameters.cuh}.
 */
public enum CombineField {
  PEERS,
  RANK,
  RANKS,
  TOP_K,
  TOKENS,
  ROUTES,
  MATRIX,
  SLOT_ROWS,
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
  RETURN_OFFSET,
  RETURN_ROW_BYTES,
  RETURN_WEIGHTS_OFFSET,
  PUSH_WARPS,
  STAGE_BYTES,
  TIMEOUT,
  RECORD,
  HOST_ABORT,
  TICKET,
  COMPLETED,
  INTERNODE,
  INTERNODE_ROUTES,
  INTERNODE_TOKENS,
  CHUNK_TOKENS,
  ROUNDED,
  RETURN_WARPS,
  SUM_WARPS,
  LOAD_STAGE_BYTES,
  PARTS
}
