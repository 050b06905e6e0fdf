package org.ep4j.cuda.engine;

import java.lang.foreign.Arena;
import java.util.Objects;
import org.ep4j.config.BufferConfig;
import org.ep4j.config.HighThroughputConfig;
import org.ep4j.config.Layout;
import org.ep4j.cuda.driver.CudaDevice;
import org.ep4j.cuda.driver.DeviceMemory;
import org.ep4j.routing.Routing;
import org.ep4j.tensor.DType;
import org.ep4j.tensor.Tensor;
import org.ep4j.verify.Inputs;
import org.ep4j.verify.Inputs.Part;
import org.ep4j.verify.RoutingGenerator;
import org.ep4j.verify.RoutingKind;
import org.ep4j.verify.Rows;

/** Tokens of one rank in device memory, refilled by {@link #fill}. */
public final class Batch implements AutoCloseable {
  public static final int HIDDEN = 512;
  static final int TOP_K = 4;
  static final int EXPERTS = 8;

  final int tokens;
  public final Tensor x;
  public final Routing routing;
  private final Tensor topkWeights;
  private final DeviceMemory rows;
  private final DeviceMemory ids;
  private final DeviceMemory weights;

  public Batch(CudaDevice device, int tokens) {
    this.tokens = tokens;
    rows = DeviceMemory.allocate(device, (long) tokens * HIDDEN * 2);
    ids = DeviceMemory.allocate(device, (long) tokens * TOP_K * Long.BYTES);
    weights = DeviceMemory.allocate(device, (long) tokens * TOP_K * Float.BYTES);
    int ordinal = device.ordinal();
    x = Tensor.ofDevice(rows.address(), ordinal, DType.BF16, tokens, HIDDEN);
    topkWeights = Tensor.ofDevice(weights.address(), ordinal, DType.FP32, tokens, TOP_K);
    routing =
        Routing.of(
            Tensor.ofDevice(ids.address(), ordinal, DType.INT64, tokens, TOP_K), topkWeights);
  }

  /** A configuration to which the caller adds a kind of operation. */
  public static BufferConfig.Builder config() {
    return BufferConfig.builder().engine("cuda").hidden(HIDDEN).topK(TOP_K).experts(EXPERTS);
  }

  public static BufferConfig.Builder config(int tokens) {
    return config()
        .highThroughput(
            HighThroughputConfig.builder()
                .maxTokens(tokens)
                .layouts(Layout.FLAT, Layout.EXPERT_MAJOR)
                .build());
  }

  /** The routing of a rank for {@link #fill}. */
  static Routing routing(int rank, int tokens, long seed, Arena arena) {
    return new RoutingGenerator(RoutingKind.UNIFORM, seed, EXPERTS, TOP_K)
        .routing(rank, tokens, 0, arena);
  }

  /** Fills in rows and a routing that depend on the seed. */
  public void fill(int rank, long seed) {
    try (Arena arena = Arena.ofConfined()) {
      Rows values = new Inputs(seed).rows(Part.PAYLOAD, DType.BF16, HIDDEN);
      Tensor host = Tensor.of(arena.allocate(x.byteSize(), 64), DType.BF16, tokens, HIDDEN);
      for (int t = 0; t < tokens; t++) {
        host.rows(t, t + 1).segment().copyFrom(values.row(rank, t));
      }
      x.copyFrom(host.segment());
      Routing drawn = routing(rank, tokens, seed, arena);
      routing.topkIdx().copyFrom(drawn.topkIdx().segment());
      topkWeights.copyFrom(Objects.requireNonNull(drawn.topkWeights()).segment());
    }
  }

  @Override
  public void close() {
    rows.close();
    ids.close();
    weights.close();
  }
}
