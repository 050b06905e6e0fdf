package org.ep4j.cuda.engine;

import java.util.Objects;
import org.ep4j.cuda.driver.CudaStream;
import org.ep4j.cuda.far.FarConnection;

/**
 * How dispatches run across nodes: the parameters that {@code far_dispatch.cu} and {@code
 * far_expert_dispatch.cu} add.
 */
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

  /** Kinds of warps that move rows: pushing, filling, forwarding. */
  private static final int KINDS = 3;

  /** Words for each partner, and two more, as {@code Streams} in far_streams.cuh. */
  private static final long STREAM_ARRAYS = 3;

  /** What an array of stages is aligned to. */
  private static final long STAGE_ALIGNMENT = 128;

  private final CudaContext context;
  private final FarConnection far;
  private final Stages.Memo flatStages;
  private final Stages.Memo expertStages;

  /** Shared memory that streams take. */
  private final long streamBytes;

  /**
   * @param flatBytes shared memory of the kernel in one node, but for stages
   * @param expertBytes the same of EXPERT_MAJOR
   */
  FarDispatches(CudaContext context, long flatBytes, long expertBytes) {
    this.context = context;
    far = Objects.requireNonNull(context.far, "several nodes");
    long words = (STREAM_ARRAYS * far.partners() + 2) * Integer.BYTES;
    streamBytes = Math.ceilDiv(words, STAGE_ALIGNMENT) * STAGE_ALIGNMENT;
    flatStages = new Stages.Memo(context.kernels.sharedBytes, flatBytes + streamBytes);
    expertStages = new Stages.Memo(context.kernels.sharedBytes, expertBytes + streamBytes);
  }

  void setConstants(KernelCall<DispatchField> call) {
    call.set(DispatchField.NODE_OF, far.nodeOf());
    call.set(DispatchField.FAR, far.world());
    call.set(DispatchField.FAR_TOKENS, context.config.maxTokens());
  }

  void launchFlat(
      KernelCall<DispatchField> call,
      CudaHandle handle,
      boolean cached,
      long rowBytes,
      long scaleBytes,
      CudaStream stream) {
    int blocks = context.sms();
    long offset = FarChunks.rowOffset(scaleBytes, handle.topK, cached);
    Stages moving = stages(flatStages, offset, rowBytes, 0);
    call.set(DispatchField.PUSH_BLOCKS, blocks);
    divide(call, handle, moving, blocks, offset + rowBytes);
    call.launch(blocks, moving.bytes(), stream.handle());
  }

  /**
   * @param sending blocks that send
   * @param tileBytes shared memory that counting needs, but for the streams
   */
  void launchExperts(
      KernelCall<DispatchField> call,
      CudaHandle handle,
      int sending,
      long rowBytes,
      long companionBytes,
      int tileBytes,
      CudaStream stream) {
    long offset = FarChunks.expertRowOffset(companionBytes, handle.topK);
    Stages moving = stages(expertStages, offset, rowBytes, companionBytes);
    call.set(DispatchField.PUSH_BLOCKS, sending);
    divide(call, handle, moving, sending, offset + rowBytes);
    int bytes = Math.max(moving.bytes(), tileBytes + (int) streamBytes);
    call.launch(context.sms(), bytes, stream.handle());
  }

  private static Stages stages(Stages.Memo memo, long offset, long rowBytes, long companionBytes) {
    long bytes = offset + rowBytes;
    // What stands in front of a row is in one piece with the beginning of it.
    long least = offset + UNIT;
    long piece = FarChunks.lines(Math.max(Stages.pieceOf(bytes, LONGEST_PIECE), least));
    Stages moving = memo.of(piece, companionBytes, MOST_WARPS);
    if (moving.stageBytes() < least || moving.warps() < KINDS) {
      throw new IllegalStateException(
          "stages of "
              + moving.stageBytes()
              + " bytes for "
              + moving.warps()
              + " warps are too little: use fewer experts or ranks");
    }
    return moving;
  }

  /** Shares the moving warps of a block out: some push, some fill slots, some forward. */
  private void divide(
      KernelCall<DispatchField> call,
      CudaHandle handle,
      Stages moving,
      int blocks,
      long recordBytes) {
    int filling = Math.clamp(FILLING / blocks, 1, Math.max(1, moving.warps() / KINDS));
    int pushing = Math.max(1, moving.warps() / 4);
    call.set(DispatchField.FAR_WAYS, handle.onDevice(handle.at().farWays));
    call.set(DispatchField.CHUNK_TOKENS, FarChunks.tokens(recordBytes, far.slotBytes()));
    call.set(DispatchField.PUSH_WARPS, pushing);
    call.set(DispatchField.FILL_WARPS, filling);
    call.set(DispatchField.FORWARD_WARPS, moving.warps() - pushing - filling);
    call.set(DispatchField.STAGE_BYTES, moving.stageBytes());
  }
}
