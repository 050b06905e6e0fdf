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

/** Combines between nodes: the additional parameters of {@code internode_combine.cu}. */
final class InternodeCombiner {
  /** Warps of a block that push rows, and warps that push sums. */
  private static final int PUSH_WARPS_FLAT = 3;

  private static final int PUSH_WARPS_EXPERT = 5;

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
}
