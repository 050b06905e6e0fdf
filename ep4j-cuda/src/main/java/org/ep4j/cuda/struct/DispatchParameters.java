package org.ep4j.cuda.struct;

/**
 * Parameters of a dispatch.
 *
 * <p>In comments, {@code [tokens, top_k]} is the shape of the array at an address or an offset.
 */
public final class DispatchParameters extends Struct {
  // The world.

  /** [ranks] start of each rank's region; null: the rank is missing. */
  public final Pointer peers = pointer("char* const*", "peers");

  public final U64 rank = u64("rank");
  public final U64 ranks = u64("Specialized<EP4J_RANKS>", "ranks");
  public final U64 experts = u64("Specialized<EP4J_EXPERTS>", "experts");
  public final U64 localExperts = u64("local_experts");

  /** [experts] {@code rank << 16 | local number}; rank 0xffff: missing. */
  public final Pointer placement = pointer("const u32*", "placement");

  // The routing of this rank's tokens.
  public final U64 tokens = u64("tokens");
  public final U64 topK = u64("Specialized<EP4J_CHOICES>", "top_k");

  /** [tokens, top_k]. */
  public final Pointer ids = pointer("const void*", "ids");

  /** 1: the ids are INT64, 0: INT32. */
  public final U64 wideIds = u64("wide_ids");

  /** [tokens, top_k] or null. */
  public final Pointer weights = pointer("const float*", "weights");

  // The payload.
  public final Pointer x = pointer("const char*", "x");
  public final U64 rowBytes = u64("row_bytes");

  /** Rows of scales; null: none. */
  public final Pointer scales = pointer("const char*", "scales");

  /** Bytes of a row of scales. */
  public final U64 scaleBytes = u64("scale_bytes");

  /** [tokens] global scales; null: none. */
  public final Pointer factors = pointer("const float*", "factors");

  // The handle: written by a dispatch, read by a cached one.

  /** [tokens, top_k] {@code rank << 32 | slot}, ascending, padded with NO_ROUTE. */
  public final Pointer routes = pointer("u64*", "routes");

  /** FLAT: [ranks, tokens] tokens that go to each rank. */
  public final Pointer lists = pointer("u32*", "lists");

  /** [ranks + 4, ranks], see common/row_matrix.cuh. */
  public final Pointer matrix = pointer("u32*", "matrix");

  /** FLAT: [1] rows that arrived. */
  public final Pointer flatRows = pointer("u32*", "flat_rows");

  /** [local_experts + 1] first row of each expert's group. */
  public final Pointer groupStarts = pointer("u32*", "group_starts");

  /** [local_experts] rows of each expert. */
  public final Pointer groupRows = pointer("u32*", "group_rows");

  /** EXPERT_MAJOR: [tokens, top_k] first row at the rank of the route, or NO_ROW. */
  public final Pointer targets = pointer("u32*", "targets");

  /**
   * EXPERT_MAJOR: [slots, top_k] {@code choice << 32 | row} of the rows that arrive here,
   * ascending, padded with NO_ROUTE.
   */
  public final Pointer slotRows = pointer("u64*", "slot_rows");

  /** 1: the routes of the handle are read, 0: written. */
  public final U64 cached = u64("cached");

  // Offsets in every rank's region.

  /** u64 [ranks]. */
  public final U64 readyOffset = u64("ready_offset");

  /** u64 [ranks]. */
  public final U64 doneOffset = u64("done_offset");

  /** u64 [ranks, ranks + experts + 3]. */
  public final U64 countsOffset = u64("counts_offset");

  public final U64 rowsOffset = u64("rows_offset");
  public final U64 scalesOffset = u64("scales_offset");
  public final U64 factorsOffset = u64("factors_offset");

  /** FLAT only. */
  public final U64 idsOffset = u64("ids_offset");

  public final U64 weightsOffset = u64("weights_offset");
  public final U64 tokensOffset = u64("tokens_offset");
  public final U64 sourcesOffset = u64("sources_offset");

  /** EXPERT_MAJOR: u64 [receive_slots]. */
  public final U64 arrivalsOffset = u64("arrivals_offset");

  /** EXPERT_MAJOR: [receive_slots] of metadata_bytes. */
  public final U64 metadataOffset = u64("metadata_offset");

  // Sizes.

  /** Rows that this rank accepts. */
  public final U64 limit = u64("limit");

  /** EXPERT_MAJOR: slots of a rank, equal on all ranks. */
  public final U64 receiveSlots = u64("receive_slots");

  /** EXPERT_MAJOR: equal on all ranks. */
  public final U64 metadataBytes = u64("metadata_bytes");

  public final U64 alignment = u64("alignment");

  /**
   * 1: the caller has fixed the number of rows, at {@code limit}: rows without a token are marked,
   * and rows without room are left out. 0: as many as arrive; no rank sends any if those of some
   * rank lack room. Equal on all ranks.
   */
  public final U64 fixedRows = u64("fixed_rows");

  /** EXPERT_MAJOR, 1: clear the rows that pad the groups. */
  public final U64 zero = u64("zero");

  // Execution.

  /** [blocks, ranks + experts] in this rank's memory. */
  public final Pointer blockCounts = pointer("u64*", "block_counts");

  /** EXPERT_MAJOR: [tokens, top_k] {@code rank << 32 | row} of each choice, or NO_ROUTE. */
  public final Pointer entries = pointer("u64*", "entries");

  /**
   * [ranks + 1] start of each rank's experts in the list that follows, then that list: experts by
   * rank and local number.
   */
  public final Pointer order = pointer("const u32*", "order");

  /** EXPERT_MAJOR: warps that count tokens. */
  public final U64 tileWarps = u64("tile_warps");

  /** The first blocks, which send tokens; FLAT: all blocks. */
  public final U64 pushBlocks = u64("push_blocks");

  public final U64 pushWarps = u64("push_warps");

  /** EXPERT_MAJOR, 1: store a piece only after the previous piece has been written. */
  public final U64 eager = u64("eager");

  public final U64 stageBytes = u64("stage_bytes");

  /** In nanoseconds. */
  public final U64 timeout = u64("timeout");

  /** Mapped host memory: the report of a failed wait. */
  public final Pointer record = pointer("struct Record*", "record");

  /** Mapped host memory, see {@code WaitContext}. */
  public final Pointer hostAbort = pointer("const u64*", "host_abort");

  public final Receipt receipt = nested(new Receipt(), "receipt");

  // Results for the host, in mapped host memory.

  /** Written last: the other fields are complete. */
  public final U64 countsTicket = u64("counts_ticket");

  /** Words as numbered by {@code Total} in dispatch_parameters.cuh. */
  public final Pointer totals = pointer("u64*", "totals");

  /** [ranks + 1]. */
  public final Pointer rankOffsets = pointer("u64*", "rank_offsets");

  /** [local_experts + 1]. */
  public final Pointer expertOffsets = pointer("u64*", "expert_offsets");

  /** [local_experts]. */
  public final Pointer received = pointer("u32*", "received");

  /** [local_experts]. */
  public final Pointer aligned = pointer("u32*", "aligned");

  // Internode, see internode.cuh; null and 0 within one node.

  /** [ranks]; NO_NODE: the rank is missing. */
  public final Pointer nodeOf = pointer("const u32*", "node_of");

  public final Pointer internode = pointer("const struct InternodeWorld*", "internode");

  /**
   * The handle: [partners, internode_tokens, top_k] routes within this node of the tokens that this
   * rank forwards; NO_ROUTE in between.
   */
  public final Pointer internodeRoutes = pointer("u64*", "internode_routes");

  /**
   * EXPERT_MAJOR, the handle: [partners, internode_tokens, top_k] entries of these tokens; null: no
   * combine of the buffer pulls rows.
   */
  public final Pointer internodeEntries = pointer("u64*", "internode_entries");

  /** Maximum tokens of a rank. */
  public final U64 internodeTokens = u64("internode_tokens");

  /** Tokens whose rows share a slot, at most 32; equal on all ranks. */
  public final U64 chunkTokens = u64("chunk_tokens");

  /** Warps that fill slots. */
  public final U64 fillWarps = u64("fill_warps");

  /** Warps that forward the rows of slots. */
  public final U64 forwardWarps = u64("forward_warps");

  /** EXPERT_MAJOR with weights, the handle: weights beside slot_rows, which a combine may apply. */
  public final Pointer slotWeights = pointer("float*", "slot_weights");

  // EXPERT_MAJOR: what orders sums by experts.

  /** [tokens, top_k]; null: the ids themselves. */
  public final Pointer logicalIds = pointer("const void*", "logical_ids");

  /** 1: the logical ids are INT64, 0: INT32. */
  public final U64 wideLogicalIds = u64("wide_logical_ids");

  /** The handle: [tokens, top_k] what orders the row of each choice. */
  public final Pointer keptIds = pointer("i64*", "kept_ids");

  /** The handle: [tokens, top_k] weights of the choices, if there are weights. */
  public final Pointer keptWeights = pointer("float*", "kept_weights");

  public DispatchParameters() {
    super("DispatchParameters", "common/specialized.cuh");
  }
}
