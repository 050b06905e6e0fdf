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
  private static final int RETURNING = 36;

  private static final int MOST_RETURNING = 4;

  /** Of a block: it tells of what the returning ones have filled. */
  private static final int TELLING = 1;

  /** Shared memory of a returning warp, as {@code Outlet} in far_return.cuh. */
  private static final long OUTLET = 8192;

  /** Shared memory of a summing warp, {@code Inlet} in far_inlet.cuh. */
  private static final long INLET = 7168;

  private static final long INLET_BARRIER = 8;

  private static final long POINTERS = 64L * Long.BYTES;

  /** Words of a rank, of a partner, and of a home and a rank of the node: see far_homes.cuh. */
  private static final long RANK_WORDS = 6;

  private static final long PARTNER_WORDS = 3;
  private static final long HOME_WORDS = 2;

  private final CudaContext context;
  private final FarConnection far;

  /** Shared memory of a block for all but what pushing warps need. */
  private final long words;

  private final Stages.Memo rows;

  /** Rows that a token has at most in one node. */
  private final int largestNode;

  FarCombines(CudaContext context) {
    this.context = context;
    far = Objects.requireNonNull(context.far, "several nodes");
    int node = context.nodes.of(context.rank);
    long near = (long) context.nodes.end(node) - context.nodes.first(node);
    int others = Kernels.WARPS - PUSHING - TELLING;
    words =
        Math.max(most(others, 1), most(others, MOST_RETURNING))
            + Kernels.WARPS
                * (POINTERS + context.nodes.count() * (long) (Long.BYTES + Integer.BYTES))
            + Integer.BYTES
                * (PARTNER_WORDS * far.partners()
                    + 2
                    + RANK_WORDS * context.ranks
                    + HOME_WORDS * (1 + far.partners()) * near);
    rows = new Stages.Memo(context.kernels.sharedBytes, words);
    largestNode = RegionLayout.largest(context.nodes);
  }

  /** Shared memory of returning and summing warps. */
  private static long most(int warps, int returning) {
    return returning * OUTLET + (warps - returning) * (INLET + INLET_BARRIER);
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
    int pushing = flat ? PUSHING : ADDING;
    int summing = Kernels.WARPS - pushing - returning - TELLING;
    int stageBytes = 0;
    long bytes = words + ADDING * Stages.BARRIERS_OF_WARP;
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
    call.set(CombineField.SUM_WARPS, summing);
    call.set(CombineField.INLET_BYTES, INLET);
    call.set(CombineField.PUSH_WARPS, pushing);
    call.set(CombineField.STAGE_BYTES, stageBytes);
    call.launch(blocks, (int) bytes, stream.handle());
  }
}
