package org.ep4j.c.struct;

import java.time.Duration;
import org.ep4j.config.BufferConfig;
import org.ep4j.config.HighThroughputConfig;
import org.ep4j.config.Layout;
import org.ep4j.config.LowLatencyConfig;
import org.ep4j.config.WireOptions;
import org.ep4j.error.ErrorCode;
import org.ep4j.error.InvalidArgumentException;
import org.ep4j.memory.NativeMemory;
import org.ep4j.routing.ExpertPlacement;
import org.ep4j.tensor.DType;

/** Reads {@code ep4j_buffer_config}. */
public final class BufferConfigs {
  private static final int ALL_WIRE_OPTIONS =
      BufferStructs.HAS_LANES
          | BufferStructs.HAS_QUEUE_PAIRS
          | BufferStructs.HAS_SERVICE_LEVEL
          | BufferStructs.HAS_TRAFFIC_CLASS
          | BufferStructs.HAS_GPU_DIRECT;

  private BufferConfigs() {}

  /** The configuration of a buffer of {@code ranks} ranks. */
  public static BufferConfig read(long at, int ranks) {
    BufferStructs.CONFIG.requireInput("config", at);
    BufferConfig.Builder config =
        BufferConfig.builder()
            .hidden(NativeMemory.getInt(at + BufferStructs.HIDDEN))
            .topK(NativeMemory.getInt(at + BufferStructs.TOP_K))
            .parallelism(NativeMemory.getInt(at + BufferStructs.PARALLELISM))
            .ranksPerNode(NativeMemory.getInt(at + BufferStructs.RANKS_PER_NODE))
            .wireOptions(wireOptions(at));
    placement(config, at, ranks);
    operations(config, at);
    long timeout = NativeMemory.getLong(at + BufferStructs.TIMEOUT);
    if (timeout != 0) {
      config.timeout(Duration.ofMillis(timeout));
    }
    names(config, at);
    return config.build();
  }

  private static void placement(BufferConfig.Builder config, long at, int ranks) {
    int experts = NativeMemory.getInt(at + BufferStructs.EXPERTS);
    long table = NativeMemory.getLong(at + BufferStructs.RANK_OF_EXPERT);
    if (table == 0 || experts < 1) {
      config.experts(experts);
    } else {
      int[] rankOf = new int[experts];
      for (int expert = 0; expert < experts; expert++) {
        rankOf[expert] = NativeMemory.getInt(table + expert * (long) Integer.BYTES);
      }
      config.placement(ExpertPlacement.table(rankOf, ranks));
    }
  }

  private static void operations(BufferConfig.Builder config, long at) {
    int tokens = NativeMemory.getInt(at + BufferStructs.MAX_TOKENS);
    if (tokens != 0) {
      HighThroughputConfig.Builder part =
          HighThroughputConfig.builder()
              .maxTokens(tokens)
              .rowDType(
                  Constants.of(
                      "config->row_dtype",
                      NativeMemory.getInt(at + BufferStructs.ROW_DTYPE),
                      DType.values(),
                      DType.BF16))
              .combineInPlace(
                  Constants.flag(
                      "config->combine_in_place",
                      NativeMemory.getInt(at + BufferStructs.COMBINE_IN_PLACE)))
              .lostRanks(NativeMemory.getInt(at + BufferStructs.LOST_RANKS));
      long rows = NativeMemory.getLong(at + BufferStructs.MAX_RECEIVE_ROWS);
      if (rows != 0) {
        part.maxReceiveRows(rows);
      }
      int layouts = NativeMemory.getInt(at + BufferStructs.LAYOUTS);
      if (layouts != 0) {
        part.layouts(layouts(layouts));
      }
      int alignment = NativeMemory.getInt(at + BufferStructs.EXPERT_ALIGNMENT);
      if (alignment != 0) {
        part.expertAlignment(alignment);
      }
      config.highThroughput(part.build());
    }
    int decoded = NativeMemory.getInt(at + BufferStructs.LOW_LATENCY_MAX_TOKENS);
    if (decoded != 0) {
      config.lowLatency(
          LowLatencyConfig.builder()
              .maxTokens(decoded)
              .masking(
                  Constants.flag(
                      "config->masking", NativeMemory.getInt(at + BufferStructs.MASKING)))
              .build());
    }
  }

  private static Layout[] layouts(int given) {
    return switch (given) {
      case BufferStructs.LAYOUT_FLAT -> new Layout[] {Layout.FLAT};
      case BufferStructs.LAYOUT_EXPERT_MAJOR -> new Layout[] {Layout.EXPERT_MAJOR};
      case BufferStructs.LAYOUT_FLAT | BufferStructs.LAYOUT_EXPERT_MAJOR ->
          new Layout[] {Layout.FLAT, Layout.EXPERT_MAJOR};
      default ->
          throw new InvalidArgumentException(
              ErrorCode.NATIVE_VALUE,
              "config->layouts",
              Integer.toString(given),
              "a sum of EP4J_LAYOUT_* constants",
              "set it to 0 for FLAT");
    };
  }

  private static void names(BufferConfig.Builder config, long at) {
    String engine = Text.read(NativeMemory.getLong(at + BufferStructs.ENGINE));
    if (engine != null) {
      config.engine(engine);
    }
    String wire = Text.read(NativeMemory.getLong(at + BufferStructs.WIRE));
    if (wire != null) {
      config.wire(wire);
    }
    String backend = Text.read(NativeMemory.getLong(at + BufferStructs.BACKEND));
    if (backend != null) {
      config.backend(backend);
    }
  }

  private static WireOptions wireOptions(long at) {
    int given = NativeMemory.getInt(at + BufferStructs.WIRE_OPTIONS);
    if ((given & ~ALL_WIRE_OPTIONS) != 0) {
      throw new InvalidArgumentException(
          ErrorCode.NATIVE_VALUE,
          "config->wire_options",
          Integer.toString(given),
          "a sum of EP4J_WIRE_* constants",
          "set it to 0 for the defaults");
    }
    WireOptions.Builder options = WireOptions.builder();
    if ((given & BufferStructs.HAS_LANES) != 0) {
      options.lanes(NativeMemory.getInt(at + BufferStructs.WIRE_LANES));
    }
    if ((given & BufferStructs.HAS_QUEUE_PAIRS) != 0) {
      options.queuePairs(NativeMemory.getInt(at + BufferStructs.WIRE_QUEUE_PAIRS));
    }
    if ((given & BufferStructs.HAS_SERVICE_LEVEL) != 0) {
      options.serviceLevel(NativeMemory.getInt(at + BufferStructs.WIRE_SERVICE_LEVEL));
    }
    if ((given & BufferStructs.HAS_TRAFFIC_CLASS) != 0) {
      options.trafficClass(NativeMemory.getInt(at + BufferStructs.WIRE_TRAFFIC_CLASS));
    }
    if ((given & BufferStructs.HAS_GPU_DIRECT) != 0) {
      options.gpuDirect(
          Constants.flag(
              "config->wire_gpu_direct", NativeMemory.getInt(at + BufferStructs.WIRE_GPU_DIRECT)));
    }
    return options.build();
  }
}
