package org.ep4j.cuda.engine;

import java.util.Objects;
import org.ep4j.cuda.driver.CudaStream;
import org.ep4j.cuda.far.FarConnection;

/** How FLAT dispatches run across nodes: the parameters that {@code far_dispatch.cu} adds. */
final class FarDispatches {
  /** Warps that move rows, of all kinds; the others write what goes with them. */
  private static final int MOST_WARPS = 10;

  /**
   * Warps of all blocks that fill slots, unless every block has but one: they keep a bus busy, and
   * more of them would only begin more slots before the first has been filled.
   */
  private static final int FILLING = 32;

  /** Longer records are moved in pieces, so that more warps find room for stages. */
  private static final long LONGEST_PIECE = 8192;

  private static final long UNIT = 16;

  /** Arrays of as many words as there are ranks, one word more, as {@code Slots} in layout.cuh. */
  private static final long SLOT_ARRAYS = 8;

  /** Words for each partner, and two more, as {@code Streams} in far_streams.cuh. */
  private static final long STREAM_ARRAYS = 3;

  private final CudaContext context;
  private final FarConnection far;
  private final Stages.Memo stages;

  FarDispatches(CudaContext context) {
    this.context = context;
    far = Objects.requireNonNull(context.far, "several nodes");
    long words =
        SLOT_ARRAYS * context.ranks
            + 1
            + context.config.experts()
            + context.ranks * (1 + 2L * Kernels.WARPS)
            + STREAM_ARRAYS * far.partners()
            + 2;
    stages = new Stages.Memo(context.kernels.sharedBytes, words * Integer.BYTES);
  }

  void setConstants(KernelCall<DispatchField> call) {
    call.set(DispatchField.NODE_OF, far.nodeOf());
    call.set(DispatchField.FAR, far.world());
    call.set(DispatchField.FAR_TOKENS, context.config.maxTokens());
  }

  void launch(
      KernelCall<DispatchField> call,
      CudaHandle handle,
      boolean cached,
      long rowBytes,
      long scaleBytes,
      CudaStream stream) {
    long recordBytes = FarChunks.rowOffset(scaleBytes, handle.topK, cached) + rowBytes;
    int blocks = context.sms();
    long pieces = Math.ceilDiv(recordBytes, LONGEST_PIECE);
    // What stands in front of a row is in one piece with the beginning of it.
    long least = recordBytes - rowBytes + UNIT;
    Stages moving = stages.of(Math.max(Math.ceilDiv(recordBytes, pieces), least), 0, MOST_WARPS);
    if (moving.stageBytes() < least) {
      throw new IllegalStateException(
          "a stage of " + moving.stageBytes() + " bytes is too small: use fewer experts or ranks");
    }
    int filling = Math.clamp(FILLING / blocks, 1, Math.max(1, moving.warps() / 3));
    int pushing = Math.max(1, moving.warps() / 4);
    call.set(DispatchField.PUSH_BLOCKS, blocks);
    call.set(DispatchField.FAR_WAYS, handle.onDevice(handle.at().farWays));
    call.set(DispatchField.CHUNK_TOKENS, FarChunks.tokens(recordBytes, far.slotBytes()));
    call.set(DispatchField.PUSH_WARPS, pushing);
    call.set(DispatchField.FILL_WARPS, filling);
    call.set(DispatchField.FORWARD_WARPS, moving.warps() - pushing - filling);
    call.set(DispatchField.STAGE_BYTES, moving.stageBytes());
    call.launch(blocks, moving.bytes(), stream.handle());
  }
}
