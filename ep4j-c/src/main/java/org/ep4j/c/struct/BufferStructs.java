package org.ep4j.c.struct;

/** {@code ep4j_buffer_config} and what functions of buffers fill in. */
public final class BufferStructs {
  /** Characters of a name, with the 0 behind it. */
  public static final int NAME_BYTES = 32;

  public static final Struct CONFIG = Struct.named("ep4j_buffer_config");
  static final long HIDDEN = CONFIG.int32("hidden");
  static final long TOP_K = CONFIG.int32("top_k");
  static final long EXPERTS = CONFIG.int32("experts");
  static final long PARALLELISM = CONFIG.int32("parallelism");
  static final long RANK_OF_EXPERT = CONFIG.int64("rank_of_expert");
  static final long MAX_TOKENS = CONFIG.int32("max_tokens");
  static final long ROW_DTYPE = CONFIG.int32("row_dtype");
  static final long MAX_RECEIVE_ROWS = CONFIG.int64("max_receive_rows");
  static final long EXPERT_ALIGNMENT = CONFIG.int32("expert_alignment");
  static final long COMBINE_IN_PLACE = CONFIG.int32("combine_in_place");
  static final long LOW_LATENCY_MAX_TOKENS = CONFIG.int32("low_latency_max_tokens");
  static final long MASKING = CONFIG.int32("masking");
  static final long TIMEOUT = CONFIG.int64("timeout_ms");
  static final long ENGINE = CONFIG.int64("engine");
  static final long WIRE = CONFIG.int64("wire");
  static final long BACKEND = CONFIG.int64("backend");
  static final long RANKS_PER_NODE = CONFIG.int32("ranks_per_node");
  static final long WIRE_OPTIONS = CONFIG.int32("wire_options");
  static final long WIRE_LANES = CONFIG.int32("wire_lanes");
  static final long WIRE_QUEUE_PAIRS = CONFIG.int32("wire_queue_pairs");
  static final long WIRE_SERVICE_LEVEL = CONFIG.int32("wire_service_level");
  static final long WIRE_TRAFFIC_CLASS = CONFIG.int32("wire_traffic_class");
  static final long WIRE_GPU_DIRECT = CONFIG.int32("wire_gpu_direct");
  static final long LAYOUTS = CONFIG.int32("layouts");
  static final long LOST_RANKS = CONFIG.int32("lost_ranks");

  static {
    CONFIG.int32("reserved");
  }

  /** Bits of {@link #LAYOUTS}. */
  static final int LAYOUT_FLAT = 1;

  static final int LAYOUT_EXPERT_MAJOR = 2;

  /** Bits of {@link #WIRE_OPTIONS}. */
  static final int HAS_LANES = 1;

  static final int HAS_QUEUE_PAIRS = 2;
  static final int HAS_SERVICE_LEVEL = 4;
  static final int HAS_TRAFFIC_CLASS = 8;
  static final int HAS_GPU_DIRECT = 16;

  public static final Struct INFO = Struct.named("ep4j_buffer_info");
  public static final long INFO_RANK = INFO.int32("rank");
  public static final long INFO_RANKS = INFO.int32("ranks");
  public static final long INFO_EXPERTS = INFO.int32("experts");
  public static final long INFO_LOCAL_EXPERTS = INFO.int32("local_experts");
  public static final long INFO_PARALLELISM = INFO.int32("parallelism");
  public static final long INFO_RANKS_PER_NODE = INFO.int32("ranks_per_node");
  public static final long INFO_MAX_RECEIVE_ROWS = INFO.int64("max_receive_rows");
  public static final long INFO_ENGINE = INFO.bytes("engine", NAME_BYTES);
  public static final long INFO_WIRE = INFO.bytes("wire", NAME_BYTES);
  public static final long INFO_BACKEND = INFO.bytes("backend", NAME_BYTES);

  public static final Struct SIZES = Struct.named("ep4j_buffer_sizes");
  public static final long SYMMETRIC_BYTES = SIZES.int64("symmetric_bytes");
  public static final long PRIVATE_BYTES = SIZES.int64("private_bytes");
  public static final long LOW_LATENCY_BYTES = SIZES.int64("low_latency_bytes");
  public static final long FIRST_USE_BYTES = SIZES.int64("first_use_bytes");

  public static final Struct STATISTICS = Struct.named("ep4j_statistics");
  public static final long DISPATCHES = STATISTICS.int64("dispatches");
  public static final long COMBINES = STATISTICS.int64("combines");
  public static final long LOW_LATENCY_DISPATCHES = STATISTICS.int64("low_latency_dispatches");
  public static final long LOW_LATENCY_COMBINES = STATISTICS.int64("low_latency_combines");
  public static final long ROWS_SENT = STATISTICS.int64("rows_sent");
  public static final long ROWS_RECEIVED = STATISTICS.int64("rows_received");
  public static final long PAYLOAD_BYTES_SENT = STATISTICS.int64("payload_bytes_sent");
  public static final long USED_SYMMETRIC_BYTES = STATISTICS.int64("symmetric_bytes");
  public static final long USED_PRIVATE_BYTES = STATISTICS.int64("private_bytes");
  public static final long ABANDONED_THREADS = STATISTICS.int64("abandoned_threads");
  public static final long WIRE_PATHS = STATISTICS.int64("wire_paths");
  public static final long COMBINES_IN_PLACE = STATISTICS.int64("combines_in_place");

  public static final Struct PATH = Struct.named("ep4j_wire_path");
  public static final int PORT_BYTES = 64;
  public static final long PATH_PEER = PATH.int32("peer");
  public static final long PATH_QUEUE_PAIR = PATH.int32("queue_pair");
  public static final long PATH_BYTES = PATH.int64("bytes");
  public static final long PATH_PORT = PATH.bytes("port", PORT_BYTES);

  private BufferStructs() {}
}
