package org.ep4j.cuda.struct;

/**
 * Parameters of the low-latency kernels. Numbers of type {@code Specialized} may be constants of
 * the compiled kernel; the host writes them in any case.
 */
public final class LowLatencyParameters extends Struct {
  // The world.

  /** [ranks] start of each rank's part; null: the rank is missing. */
  public final Pointer peers = pointer("char* const*", "peers");

  /** The part of this rank. */
  public final Pointer own = pointer("char*", "own");

  public final U64 rank = u64("rank");
  public final U64 ranks = u64("Specialized<EP4J_RANKS>", "ranks");
  public final U64 experts = u64("Specialized<EP4J_EXPERTS>", "experts");
  public final U64 localExperts = u64("local_experts");

  /** [experts] {@code rank << 16 | local number}; rank 0xffff: missing. */
  public final Pointer placement = pointer("const u32*", "placement");

  /** Elements of a row of the operation, equal on all ranks. */
  public final U64 hidden = u64("Specialized<EP4J_HIDDEN>", "hidden");

  // The shape of the buffer.
  public final U64 maxTokens = u64("max_tokens");
  public final U64 maxChoices = u64("Specialized<EP4J_CHOICES>", "max_choices");

  // Offsets in every rank's part; consecutive areas are {@code area_bytes} apart.

  /** u64 [ranks]. */
  public final U64 receivedOffset = u64("received_offset");

  /** u64 [ranks]. */
  public final U64 headersOffset = u64("headers_offset");

  /** u64 [ranks, count_stride]. */
  public final U64 countsOffset = u64("counts_offset");

  public final U64 countStride = u64("count_stride");

  /** u64 [ranks, max_tokens, max_choices]. */
  public final U64 entriesOffset = u64("entries_offset");

  /** u64 [ranks, max_tokens, max_choices]. */
  public final U64 weightsOffset = u64("weights_offset");

  /** u64 [max_tokens, pieces, flag_stride]. */
  public final U64 flagsOffset = u64("flags_offset");

  public final U64 flagStride = u64("flag_stride");

  /** 2 * hidden bytes each. */
  public final U64 rowsOffset = u64("rows_offset");

  /** {@code packet_bytes(VECTORS)} for [ranks, max_tokens, pieces]. */
  public final U64 packetsOffset = u64("packets_offset");

  public final U64 areaBytes = u64("area_bytes");

  // The operation.

  /** Bits of {@code LowLatencyPhases} in low_latency.cuh. */
  public final U64 phases = u64("phases");

  /** Kind of the rows, equal on all ranks; see org.ep4j.cuda.engine.launch.LowLatencyKind. */
  public final U64 kind = u64("kind");

  public final U64 tokens = u64("tokens");
  public final U64 topK = u64("top_k");

  /** [tokens, top_k]. */
  public final Pointer ids = pointer("const void*", "ids");

  /** 1: the ids are INT64, 0: INT32. */
  public final U64 wideIds = u64("wide_ids");

  /** [tokens, top_k]; null: dispatch without weights, combine RANK_MAJOR. */
  public final Pointer weights = pointer("const float*", "weights");

  /** BF16: rows of the tokens, or of the experts. */
  public final Pointer x = pointer("const char*", "x");

  /** Dispatch: bytes of a row's values in the travelling format. */
  public final U64 rowBytes = u64("row_bytes");

  /** Bytes of the scales behind them. */
  public final U64 scaleBytes = u64("scale_bytes");

  /** As {@link org.ep4j.tensor.ScaleKind}. */
  public final U64 scaleKind = u64("scale_kind");

  /** NVFP4: the factor of the rows; null: 1. */
  public final Pointer globalScale = pointer("const float*", "global_scale");

  // State that a dispatch leaves for its combine.

  /** [ranks, max_tokens, max_choices] row of each choice here, or NO_ENTRY. */
  public final Pointer choiceRows = pointer("u32*", "choice_rows");

  /** [ranks] {@code choices << 16 | tokens} of each source. */
  public final Pointer batches = pointer("u32*", "batches");

  /** [max_tokens, max_choices] see pack_choice. */
  public final Pointer choices = pointer("u64*", "choices");

  // Results. RANK_MAJOR: [ranks, max_tokens] instead of [local_experts, ranks * max_tokens].

  /** Dispatch: [local_experts, ranks * max_tokens] rows. */
  public final Pointer rows = pointer("char*", "rows");

  /** The same rows, or [local_experts, columns, scale_columns]. */
  public final Pointer scales = pointer("char*", "scales");

  /** 0: scales by rows; else length of a column. */
  public final U64 scaleColumns = u64("scale_columns");

  /** [local_experts, ranks * max_tokens] number of each row's token at its source. */
  public final Pointer sourceTokens = pointer("int*", "source_tokens");

  /** RANK_MAJOR: [ranks, max_tokens, top_k] local experts, or -1. */
  public final Pointer rowChoices = pointer("i64*", "row_choices");

  /**
   * RANK_MAJOR: the weights of those choices, or 0; else [local_experts, ranks * max_tokens] the
   * weight of each row. Written if the kind has weights.
   */
  public final Pointer rowWeights = pointer("float*", "row_weights");

  /** [local_experts, ranks] {@code first row << 32 | rows}; RANK_MAJOR [ranks]. */
  public final Pointer ranges = pointer("u64*", "ranges");

  /** [local_experts] rows, or [ranks]. */
  public final Pointer rowCounts = pointer("int*", "row_counts");

  /** [local_experts] grows by the rows, or null. */
  public final Pointer cumulative = pointer("int*", "cumulative");

  /** Combine: BF16 [tokens, hidden]. */
  public final Pointer out = pointer("char*", "out");

  /** [ranks] grows by the nanoseconds waited, or null. */
  public final Pointer waits = pointer("u64*", "waits");

  // Execution.
  public final Pointer control = pointer("struct Control*", "control");

  /** [ranks] 1: masked. */
  public final Pointer masks = pointer("u64*", "masks");

  /** [ranks] longest wait of the operation so far. */
  public final Pointer waited = pointer("u64*", "waited");

  /** [ranks] last number acknowledged to each rank. */
  public final Pointer acknowledged = pointer("u64*", "acknowledged");

  /** 1: late ranks are masked. */
  public final U64 masking = u64("Specialized<EP4J_MASKING, 2>", "masking");

  /** Copy of {@code masks} in mapped host memory, for the host. */
  public final Pointer hostMasks = pointer("u64*", "host_masks");

  /** [ranks] mapped host memory: not 0 once a dead rank is fenced or a rank has closed. */
  public final Pointer hostGone = pointer("const u64*", "host_gone");

  /** Dispatch: tokens of a routing tile, bounded by shared memory. */
  public final U64 tileTokens = u64("tile_tokens");

  /** In nanoseconds. */
  public final U64 timeout = u64("timeout");

  public final Pointer record = pointer("struct Record*", "record");

  /** Mapped host memory, see {@code WaitContext}. */
  public final Pointer hostAbort = pointer("const u64*", "host_abort");

  public final Receipt receipt = nested(new Receipt(), "receipt");

  // Compiled with EP4J_INTERNODE; else unused.

  /** The internode part of this rank. */
  public final Pointer internodePart = pointer("char*", "internode_part");

  /** The first rank of this node. */
  public final U64 nodeFirst = u64("node_first");

  /** Number of ranks of this node. */
  public final U64 nodeRanks = u64("node_ranks");

  /** Distance between the words of consecutive sources. */
  public final U64 sourceBytes = u64("source_bytes");

  /** u64 [max_tokens, even number of pieces] among the words of a source. */
  public final U64 packedOffset = u64("packed_offset");

  /** u64 [GROUPS, UNITS] behind them, for the longest rows of the buffer. */
  public final U64 unitsOffset = u64("units_offset");

  /** Set for PUTS. */
  public final Pointer puts = pointer("const struct LowLatencyPuts*", "puts");

  /** [ranks], then [GROUPS, UNITS]; see low_latency_internode.cuh. */
  public final Pointer internodeState = pointer("u64*", "internode_state");

  /**
   * Combine: [tokens, top_k] what orders the rows of a token; null: they are added in the order of
   * its choices.
   */
  public final Pointer orderIds = pointer("const void*", "order_ids");

  /** 1: these ids are INT64, 0: INT32. */
  public final U64 wideOrderIds = u64("wide_order_ids");

  /** Compiled with EP4J_INTERNODE: distance between the areas of an internode part. */
  public final U64 internodeAreaBytes = u64("internode_area_bytes");

  /** The same, with masks: distance between the rows of consecutive writers in such an area. */
  public final U64 shareBytes = u64("share_bytes");

  public LowLatencyParameters() {
    super("LowLatencyParameters", "common/specialized.cuh");
  }
}
