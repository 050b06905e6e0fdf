package org.ep4j.cuda.engine.throughput;

import java.util.Objects;
import org.ep4j.CombineOptions;
import org.ep4j.config.Layout;
import org.ep4j.cuda.driver.CudaStream;
import org.ep4j.cuda.engine.context.CudaContext;
import org.ep4j.cuda.engine.context.RegionLayout;
import org.ep4j.cuda.engine.launch.KernelCall;
import org.ep4j.cuda.engine.launch.Kernels;
import org.ep4j.cuda.internode.InternodeChunks;
import org.ep4j.cuda.internode.InternodeConnection;
import org.ep4j.cuda.struct.CombineParameters;
import org.ep4j.engine.Limits;
import org.ep4j.tensor.DType;

/**
 * Combines between nodes: the additional parameters of {@code internode_combine.cu} and {@code
 * internode_by_experts.cu}.
 */
final class InternodeCombiner {
  /** Warps of a block that push rows, and warps that push sums. */
  private static final int PUSH_WARPS_FLAT = 3;

  private static final int PUSH_WARPS_EXPERT = 5;

  /** Columns of a vector of 16 bytes of the narrowest rows. */
  private static final int COLUMNS = 8;

  /** Warps of all blocks that return sums to other nodes, limited by the warps of a block. */
  private static final int RETURN_WARPS_TOTAL = 36;

  private static final int MAX_RETURNING = 4;

  /** Warps of a block that notify receivers about slots that the returning warps have filled. */
  private static final int NOTIFY_WARPS = 1;

  /** Shared memory of a returning warp, as {@code StoreStages} in internode_return.cuh. */
  private static final long STORE_STAGES = 8192;

  /** Shared memory of a summing warp, {@code LoadStage} in internode_load_stage.cuh. */
  private static final long LOAD_STAGE = 7168;

  private static final long LOAD_STAGE_BARRIER = 8;

  /**
   * The same in the order of experts, at most: no warp pushes, and all rows of a token pass through
   * it.
   */
  private static final long EXPERT_LOAD_STAGE = 16384;

  /** Alignment of a load stage. */
  private static final long LINE = 128;

  /** Rows of a token that a warp lists with their weights, as in combine_parameters.cuh. */
  private static final long MAX_ROWS = 64;

  /**
   * Words of a rank, of a partner, and of a pair of return buffer and rank of the node: see
   * internode_return_layout.cuh.
   */
  private static final long RANK_WORDS = 6;

  private static final long PARTNER_WORDS = 3;
  private static final long SECTION_WORDS = 2;

  private final CudaContext context;
  private final InternodeConnection internode;

  /** Shared memory of a block except that of pushing warps. */
  private final long words;

  private final Stages.Cache rows;

  /** Largest number of rows of a token in one node. */
  private final int largestNode;

  /** Shared memory of a block in the order of experts: its table of rows, and its schedule. */
  private final long tableBytes;

  /** The same of a summing warp, except its load stage. */
  private final long listBytes;

  InternodeCombiner(CudaContext context) {
    this.context = context;
    internode = Objects.requireNonNull(context.internode, "several nodes");
    int node = context.nodes.of(context.rank);
    long nodeRanks = (long) context.nodes.end(node) - context.nodes.first(node);
    int others = Kernels.WARPS - PUSH_WARPS_FLAT - NOTIFY_WARPS;
    words =
        Math.max(stageBytesOf(others, 1), stageBytesOf(others, MAX_RETURNING))
            + Stages.ROW_LISTS
            + (long) Kernels.WARPS * context.nodes.count() * (Long.BYTES + Integer.BYTES)
            + Integer.BYTES
                * (PARTNER_WORDS * internode.partners()
                    + 2
                    + RANK_WORDS * context.ranks
                    + SECTION_WORDS * (1 + internode.partners()) * nodeRanks);
    rows = new Stages.Cache(context.kernels.sharedBytes, words);
    largestNode = RegionLayout.largest(context.nodes);
    tableBytes =
        Math.ceilDiv(
                2L * context.ranks * Long.BYTES
                    + (PARTNER_WORDS * internode.partners() + 2) * Integer.BYTES,
                LINE)
            * LINE;
    listBytes =
        LOAD_STAGE_BARRIER
            + MAX_ROWS * (Long.BYTES + Float.BYTES)
            + context.nodes.count() * (long) (Long.BYTES + Integer.BYTES);
  }

  /** Shared memory of returning and summing warps. */
  private static long stageBytesOf(int warps, int returning) {
    return returning * STORE_STAGES + (warps - returning) * (LOAD_STAGE + LOAD_STAGE_BARRIER);
  }

  void launch(
      KernelCall<CombineParameters> call,
      CudaHandle handle,
      CombineOptions options,
      long pieceBytes,
      long travelingBytes,
      CudaStream stream) {
    CombineParameters p = call.parameters;
    boolean flat = handle.layout == Layout.FLAT;
    int blocks = context.sms();
    int returning = Math.clamp(Math.ceilDiv(RETURN_WARPS_TOTAL, blocks), 1, MAX_RETURNING);
    int pushing = flat ? PUSH_WARPS_FLAT : PUSH_WARPS_EXPERT;
    int summing = Kernels.WARPS - pushing - returning - NOTIFY_WARPS;
    int stageBytes = 0;
    long bytes = words + PUSH_WARPS_EXPERT * Stages.BARRIERS_OF_WARP + Stages.weightLists(options);
    if (flat) {
      Stages stages = rows.of(pieceBytes, 0, PUSH_WARPS_FLAT);
      pushing = stages.warps();
      stageBytes = stages.stageBytes();
      bytes = stages.bytes();
    }
    // The tokens of a slot must not depend on settings of a single rank.
    long returnRecordBytes = InternodeChunks.returnRecordBytes(travelingBytes, handle.topK, true);
    int rowsOfToken = options.partialRounding() ? 1 : Math.min(handle.topK, largestNode);
    p.internode.set(internode.world());
    p.internodeRoutes.set(handle.onDevice(handle.at().internodeRoutes));
    p.internodeTokens.set(Limits.tokens(context.config));
    p.chunkTokens.set(
        InternodeChunks.returnTokens(returnRecordBytes, rowsOfToken, internode.slotBytes()));
    p.returnWarps.set(returning);
    p.sumWarps.set(summing);
    p.loadStageBytes.set(LOAD_STAGE);
    p.pushWarps.set(pushing);
    p.stageBytes.set(stageBytes);
    call.launch(blocks, (int) bytes, stream.handle());
  }

  /** Columns of a pass in the order of experts: a slot has room for the rows of a token. */
  long columnsByExperts(DType dtype, int topK) {
    long bytes = InternodeChunks.expertReturnRowBytes(topK, internode.slotBytes());
    return bytes * Byte.SIZE / dtype.bits() / COLUMNS * COLUMNS;
  }

  /**
   * Launches a combine in the order of experts.
   *
   * @param rowBytes of the columns of a row, which travels as it is
   */
  void launchByExperts(
      KernelCall<CombineParameters> call, CudaHandle handle, long rowBytes, CudaStream stream) {
    CombineParameters p = call.parameters;
    int blocks = context.sms();
    int returning = Math.clamp(Math.ceilDiv(RETURN_WARPS_TOTAL, blocks), 1, MAX_RETURNING);
    int summing = Kernels.WARPS - returning - NOTIFY_WARPS;
    long fixed = tableBytes + returning * STORE_STAGES + summing * listBytes;
    long stage =
        Math.min(EXPERT_LOAD_STAGE, (context.kernels.sharedBytes - fixed) / summing / LINE * LINE);
    long recordBytes = InternodeChunks.expertReturnRecordBytes(rowBytes);
    p.internode.set(internode.world());
    p.internodeEntries.set(handle.internodeEntries());
    p.internodeTokens.set(Limits.tokens(context.config));
    p.chunkTokens.set(
        InternodeChunks.returnTokens(recordBytes, handle.topK, internode.slotBytes()));
    p.returnWarps.set(returning);
    p.sumWarps.set(summing);
    p.loadStageBytes.set(stage);
    call.launch(blocks, (int) (fixed + summing * stage), stream.handle());
  }
}
