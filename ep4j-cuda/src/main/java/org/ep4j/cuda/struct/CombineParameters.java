package org.ep4j.cuda.struct;

/** Parameters of a combine. */
public final class CombineParameters extends Struct {
  public final Pointer peers = pointer("char* const*", "peers");
  public final U64 rank = u64("rank");
  public final U64 ranks = u64("Specialized<EP4J_RANKS>", "ranks");
  public final U64 topK = u64("Specialized<EP4J_CHOICES>", "top_k");

  // The handle.
  public final U64 tokens = u64("tokens");

  /** [tokens, top_k]. */
  public final Pointer routes = pointer("const u64*", "routes");

  /** [ranks + 4, ranks], see common/row_matrix.cuh. */
  public final Pointer matrix = pointer("const u32*", "matrix");

  /** EXPERT_MAJOR: [flat rows, top_k]; else null. */
  public final Pointer slotRows = pointer("const u64*", "slot_rows");

  // Rows to combine; the columns of this pass begin at element {@code column} of a row.
  public final Pointer y = pointer("const char*", "y");

  /** Elements of a row of y. */
  public final U64 hidden = u64("hidden");

  public final U64 column = u64("column");
  public final U64 columns = u64("columns");

  /** [rows, top_k] or, EXPERT_MAJOR, [rows]; null: none. */
  public final Pointer weights = pointer("const float*", "weights");

  // FLAT: where peers read the rows and their weights, as offsets into the region; 0: they cannot.
  public final U64 rowsPlace = u64("rows_place");

  public final U64 weightsPlace = u64("weights_place");

  // Results.

  /** [tokens, hidden]. */
  public final Pointer out = pointer("char*", "out");

  /** Or null. */
  public final Pointer bias0 = pointer("const char*", "bias0");

  public final Pointer bias1 = pointer("const char*", "bias1");

  /** [tokens, top_k]. */
  public final Pointer outWeights = pointer("float*", "out_weights");

  // Offsets in every rank's region.
  public final U64 readyOffset = u64("ready_offset");

  public final U64 doneOffset = u64("done_offset");

  /** u64 [ranks, 2], see combine/row_places.cuh. */
  public final U64 placesOffset = u64("places_offset");

  /** u64 [ranks, group_words]; between nodes [1 + senders, ranks of the node, group_words]. */
  public final U64 groupsOffset = u64("groups_offset");

  public final U64 groupWords = u64("group_words");

  /** Rows, {@code return_row_bytes} each. */
  public final U64 returnOffset = u64("return_offset");

  public final U64 returnRowBytes = u64("return_row_bytes");

  /** float [rows, top_k]. */
  public final U64 returnWeightsOffset = u64("return_weights_offset");

  // Execution.
  public final U64 pushWarps = u64("push_warps");
  public final U64 stageBytes = u64("stage_bytes");

  // Rings, see combine/row_ring.cuh.

  /** Shared memory before the rings, a multiple of 128. */
  public final U64 tableBytes = u64("table_bytes");

  public final U64 slots = u64("slots");
  public final U64 slotBytes = u64("slot_bytes");
  public final U64 timeout = u64("timeout");
  public final Pointer record = pointer("struct Record*", "record");

  /** Mapped host memory, see {@code WaitContext}. */
  public final Pointer hostAbort = pointer("const u64*", "host_abort");

  public final Receipt receipt = nested(new Receipt(), "receipt");

  // Internode, see internode.cuh; null and 0 within one node.
  public final Pointer internode = pointer("const struct InternodeWorld*", "internode");

  /** [partners, internode_tokens, top_k]: see DispatchParameters. */
  public final Pointer internodeRoutes = pointer("const u64*", "internode_routes");

  public final U64 internodeTokens = u64("internode_tokens");

  /** Tokens that share a slot, at most 32; equal on all ranks. */
  public final U64 chunkTokens = u64("chunk_tokens");

  /**
   * 1: a node's sum for a token is rounded before it travels; within a node, a rank's sum of rows
   * that are pulled.
   */
  public final U64 rounded = u64("rounded");

  /** Warps that fill slots. */
  public final U64 returnWarps = u64("return_warps");

  /** Warps that sum. */
  public final U64 sumWarps = u64("sum_warps");

  /** Shared memory of each summing warp, a multiple of 128, at least 2048. */
  public final U64 loadStageBytes = u64("load_stage_bytes");

  /** Within one node: parts of a token, each summed by one warp. */
  public final U64 parts = u64("parts");

  /** EXPERT_MAJOR: weights beside slot_rows that the rows are multiplied by; else null. */
  public final Pointer slotWeights = pointer("const float*", "slot_weights");

  // EXPERT_MAJOR rows that are pulled.

  /** [tokens, top_k] {@code rank << 32 | row} of each choice; NO_ROUTE: no row. */
  public final Pointer entries = pointer("const u64*", "entries");

  /** [tokens, top_k] what orders these rows in a combine in the order of experts. */
  public final Pointer keptIds = pointer("const i64*", "kept_ids");

  /** [tokens, top_k] what multiplies them; null: 1. */
  public final Pointer keptWeights = pointer("const float*", "kept_weights");

  /** Internode: [partners, internode_tokens, top_k]: see DispatchParameters. */
  public final Pointer internodeEntries = pointer("const u64*", "internode_entries");

  public CombineParameters() {
    super("CombineParameters", "common/specialized.cuh");
  }
}
