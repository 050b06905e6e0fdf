package org.ep4j.cuda.engine.throughput;

import java.util.Objects;
import org.ep4j.cuda.driver.CudaStream;
import org.ep4j.cuda.engine.context.CudaContext;
import org.ep4j.cuda.engine.launch.KernelCall;
import org.ep4j.cuda.internode.InternodeChunks;
import org.ep4j.cuda.internode.InternodeConnection;
import org.ep4j.cuda.struct.DispatchParameters;
import org.ep4j.engine.Limits;
import org.ep4j.error.ErrorCode;
import org.ep4j.error.IllegalUseException;

/**
 * Dispatches between nodes: the additional parameters of {@code internode_dispatch.cu} and {@code
 * internode_expert_dispatch.cu}.
 */
final class InternodeDispatcher {
  /** Largest number of warps of all kinds that move rows; the other warps write row metadata. */
  private static final int MAX_WARPS = 10;

  /**
   * Warps of all blocks that fill slots, at least one per block: they saturate a bus, and more of
   * them would only start more slots before the first is full.
   */
  private static final int FILL_WARPS_TOTAL = 32;

  /** Longer records are moved in pieces, so that more warps have room for stages. */
  private static final long LONGEST_PIECE = 8192;

  private static final long UNIT = 16;

  /** Kinds of warps that move rows: pushing, filling, forwarding. */
  private static final int KINDS = 3;

  /** Words per partner plus two, as {@code ChunkSchedule} in internode_schedule.cuh. */
  private static final long SCHEDULE_ARRAYS = 3;

  /** Alignment of an array of stages. */
  private static final long STAGE_ALIGNMENT = 128;

  private final CudaContext context;
  private final InternodeConnection internode;
  private final Stages.Cache flatStages;
  private final Stages.Cache expertStages;

  /** Shared memory of the chunk schedule. */
  final long scheduleBytes;

  /**
   * @param flatBytes shared memory of the kernel within one node, without stages
   * @param expertBytes the same for EXPERT_MAJOR
   */
  InternodeDispatcher(CudaContext context, long flatBytes, long expertBytes) {
    this.context = context;
    internode = Objects.requireNonNull(context.internode, "several nodes");
    scheduleBytes = scheduleBytes(internode.partners());
    flatStages = new Stages.Cache(context.kernels.sharedBytes, flatBytes + scheduleBytes);
    expertStages = new Stages.Cache(context.kernels.sharedBytes, expertBytes + scheduleBytes);
  }

  static long scheduleBytes(int partners) {
    long words = (SCHEDULE_ARRAYS * partners + 2) * Integer.BYTES;
    return Math.ceilDiv(words, STAGE_ALIGNMENT) * STAGE_ALIGNMENT;
  }

  void setConstants(DispatchParameters p) {
    p.nodeOf.set(internode.nodeOf());
    p.internode.set(internode.world());
    p.internodeTokens.set(Limits.tokens(context.config));
  }

  void launchFlat(
      KernelCall<DispatchParameters> call,
      CudaHandle handle,
      boolean cached,
      long rowBytes,
      long scaleBytes,
      CudaStream stream) {
    int blocks = context.sms();
    long offset = InternodeChunks.rowOffset(scaleBytes, handle.topK, cached);
    Stages moving = stages(flatStages, offset, rowBytes, 0);
    DispatchParameters p = call.parameters;
    p.pushBlocks.set(blocks);
    divide(p, handle, moving, blocks, offset + rowBytes);
    call.launch(blocks, moving.bytes(), stream.handle());
  }

  /**
   * @param sending number of sending blocks
   * @param tiles with the chunk schedule among the words
   */
  void launchExperts(
      KernelCall<DispatchParameters> call,
      CudaHandle handle,
      int sending,
      long rowBytes,
      long metadataBytes,
      CountingTiles tiles,
      CudaStream stream) {
    long offset = InternodeChunks.expertRowOffset(metadataBytes, handle.topK);
    Stages moving = stages(expertStages, offset, rowBytes, metadataBytes);
    DispatchParameters p = call.parameters;
    p.pushBlocks.set(sending);
    p.internodeEntries.set(handle.internodeEntries());
    divide(p, handle, moving, sending, offset + rowBytes);
    int bytes = Math.max(moving.bytes(), tiles.bytes());
    call.launch(context.sms(), bytes, stream.handle());
  }

  private static Stages stages(Stages.Cache memo, long offset, long rowBytes, long metadataBytes) {
    long bytes = offset + rowBytes;
    // The metadata before a row is in one piece with the beginning of the row.
    long least = offset + UNIT;
    long piece = InternodeChunks.alignToLine(Math.max(Stages.pieceOf(bytes, LONGEST_PIECE), least));
    Stages moving = memo.of(piece, metadataBytes, MAX_WARPS);
    if (moving.stageBytes() < least || moving.warps() < KINDS) {
      throw new IllegalUseException(
          ErrorCode.CUDA_EXPERT_COUNTERS,
          "stages of "
              + moving.stageBytes()
              + " bytes for "
              + moving.warps()
              + " warps do not suffice: use fewer experts or ranks");
    }
    return moving;
  }

  /** Divides the moving warps of a block into pushing, filling and forwarding warps. */
  private void divide(
      DispatchParameters p, CudaHandle handle, Stages moving, int blocks, long recordBytes) {
    int filling = Math.clamp(FILL_WARPS_TOTAL / blocks, 1, Math.max(1, moving.warps() / KINDS));
    int pushing = Math.max(1, moving.warps() / 4);
    p.internodeRoutes.set(handle.onDevice(handle.at().internodeRoutes));
    p.chunkTokens.set(InternodeChunks.tokens(recordBytes, internode.slotBytes()));
    p.pushWarps.set(pushing);
    p.fillWarps.set(filling);
    p.forwardWarps.set(moving.warps() - pushing - filling);
    p.stageBytes.set(moving.stageBytes());
  }
}
