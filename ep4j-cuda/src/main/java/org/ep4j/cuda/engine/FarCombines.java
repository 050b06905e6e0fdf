package org.ep4j.cuda.engine;

import java.util.Objects;
import org.ep4j.CombineOptions;
import org.ep4j.Layout;
import org.ep4j.cuda.driver.CudaStream;
import org.ep4j.cuda.far.FarConnection;

/** How combines run across nodes: the parameters that {@code far_combine.cu} adds. */
final class FarCombines {
  /** Warps of a block that push rows, and, where they first add them up. */
  private static final int PUSHING = 3;

  private static final int ADDING = 5;

  /** Warps of all blocks that return sums to other nodes, as far as a block may have so many. */
  private static final int RETURNING = 48;

  private static final int MOST_RETURNING = 4;

  /** Shared memory of a returning warp, as {@code Outlet} in far_return.cuh. */
  private static final long OUTLET = 4096;

  private static final long POINTERS = 64L * Long.BYTES;

  /** Words of a rank, of a partner, and of a home and a rank of the node: see far_homes.cuh. */
  private static final long RANK_WORDS = 6;

  private static final long PARTNER_WORDS = 3;
  private static final long HOME_WORDS = 2;

  private final CudaContext context;
  private final FarConnection far;
  private final long words;
  private final Stages.Memo rows;

  /** Rows that a token has at most in one node. */
  private final int largestNode;

  FarCombines(CudaContext context) {
    this.context = context;
    far = Objects.requireNonNull(context.far, "several nodes");
    int node = context.nodes.of(context.rank);
    long near = (long) context.nodes.end(node) - context.nodes.first(node);
    words =
        Kernels.WARPS * (POINTERS + context.nodes.count() * (long) (Long.BYTES + Integer.BYTES))
            + Integer.BYTES
                * (PARTNER_WORDS * far.partners()
                    + 2
                    + RANK_WORDS * context.ranks
                    + HOME_WORDS * (1 + far.partners()) * near);
    rows = new Stages.Memo(context.kernels.sharedBytes, words + MOST_RETURNING * OUTLET);
    largestNode = RegionLayout.largest(context.nodes);
  }

  void launch(
      KernelCall<CombineField> call,
      CudaHandle handle,
      CombineOptions options,
      long pieceBytes,
      long travelingBytes,
      CudaStream stream) {
    boolean flat = handle.layout == Layout.FLAT;
    int blocks = context.sms();
    int returning = Math.clamp(Math.ceilDiv(RETURNING, blocks), 1, MOST_RETURNING);
    int pushing = ADDING;
    int stageBytes = 0;
    long bytes = words + MOST_RETURNING * OUTLET + ADDING * Stages.BARRIERS_OF_WARP;
    if (flat) {
      Stages stages = rows.of(pieceBytes, 0, PUSHING);
      pushing = stages.warps();
      stageBytes = stages.stageBytes();
      bytes = stages.bytes();
    }
    // The tokens of a slot must not depend on what one rank alone is told.
    long answerBytes = FarChunks.answerBytes(travelingBytes, handle.topK, true);
    int rowsOfToken = options.partialRounding() ? 1 : Math.min(handle.topK, largestNode);
    call.set(CombineField.FAR, far.world());
    call.set(CombineField.FAR_WAYS, handle.onDevice(handle.at().farWays));
    call.set(CombineField.FAR_TOKENS, context.config.maxTokens());
    call.set(
        CombineField.CHUNK_TOKENS, FarChunks.tokensBack(answerBytes, rowsOfToken, far.slotBytes()));
    call.set(CombineField.ROUNDED, options.partialRounding());
    call.set(CombineField.RETURN_WARPS, returning);
    call.set(CombineField.PUSH_WARPS, pushing);
    call.set(CombineField.STAGE_BYTES, stageBytes);
    call.launch(blocks, (int) bytes, stream.handle());
  }
}
