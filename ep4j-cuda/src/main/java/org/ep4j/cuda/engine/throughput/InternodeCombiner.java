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

  private final CudaContext context;
  private final InternodeConnection internode;

  private final InternodeCombineMemory memory;

  private final Stages.Cache rows;

  /** Largest number of rows of a token in one node. */
  private final int largestNode;

  InternodeCombiner(CudaContext context) {
    this.context = context;
    internode = Objects.requireNonNull(context.internode, "several nodes");
    int node = context.nodes.of(context.rank);
    memory =
        InternodeCombineMemory.of(
            context.kernels.sharedBytes,
            context.ranks,
            context.nodes.count(),
            context.nodes.end(node) - context.nodes.first(node),
            internode.partners());
    int others = Kernels.WARPS - PUSH_WARPS_FLAT - NOTIFY_WARPS;
    rows =
        new Stages.Cache(
            context.kernels.sharedBytes,
            Math.max(
                memory.bytes(1, others - 1), memory.bytes(MAX_RETURNING, others - MAX_RETURNING)));
    largestNode = RegionLayout.largest(context.nodes);
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
    int bytes;
    if (flat) {
      Stages stages = rows.of(pieceBytes, 0, PUSH_WARPS_FLAT);
      pushing = stages.warps();
      stageBytes = stages.stageBytes();
      bytes = stages.bytes();
    } else {
      bytes = memory.grouped(pushing, returning, summing, options);
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
    p.loadStageBytes.set(InternodeCombineMemory.LOAD_STAGE);
    p.pushWarps.set(pushing);
    p.stageBytes.set(stageBytes);
    call.launch(blocks, bytes, stream.handle());
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
    long recordBytes = InternodeChunks.expertReturnRecordBytes(rowBytes);
    p.internode.set(internode.world());
    p.internodeEntries.set(handle.internodeEntries());
    p.internodeTokens.set(Limits.tokens(context.config));
    p.chunkTokens.set(
        InternodeChunks.returnTokens(recordBytes, handle.topK, internode.slotBytes()));
    p.returnWarps.set(returning);
    p.sumWarps.set(summing);
    p.loadStageBytes.set(memory.loadStage(returning, summing));
    call.launch(blocks, memory.byExperts(returning, summing), stream.handle());
  }
}
