package org.ep4j.engine.host.context;

import org.ep4j.Tokens;
import org.ep4j.engine.Arguments;
import org.ep4j.engine.host.layout.HighThroughputLayout.ScratchLayout;
import org.ep4j.memory.NativeMemory;
import org.ep4j.routing.Routing;
import org.ep4j.tensor.DType;
import org.ep4j.tensor.ScaleLayout;
import org.ep4j.tensor.Tensor;
import org.jspecify.annotations.Nullable;

/**
 * Gives every input a native address: its own, or that of a copy in private memory for inputs on
 * the heap and for inputs in the rank's own region, which peers may write once this rank has
 * entered the next operation.
 */
public final class Staging {
  /**
   * Native addresses of the inputs of a dispatch; 0 for inputs that it does not have. Filled for
   * each dispatch.
   */
  public static final class Payload {
    public DType dtype = DType.BF16;
    public @Nullable DType scaleDtype;
    public long scalesPerRow;
    public long rowBytes;
    public long scaleBytes;
    public long x;

    /**
     * Whether native code may read the rows: if the file of a mapping shrinks, native code would
     * kill the process.
     */
    public boolean streamable;

    /** Scales by rows. */
    public long scales;

    public long globalScales;
    public long ids;
    public boolean wideIds;
    public long weights;

    /**
     * Sets the addresses of {@code tokens}. Scales by columns get the address of memory for rows,
     * which the caller fills.
     */
    public void load(Tokens tokens, Staging staging, ScratchLayout scratch) {
      Tensor rows = tokens.x();
      dtype = rows.dtype();
      rowBytes = dtype.bytes(rows.size(1));
      x = staging.stable(rows, scratch.rows);
      streamable = !rows.segment().isMapped();
      Tensor blockScales = tokens.scales();
      scaleDtype = blockScales == null ? null : blockScales.dtype();
      scalesPerRow = tokens.scalesPerRow();
      scaleBytes = blockScales == null ? 0 : blockScales.dtype().bytes(scalesPerRow);
      scales =
          blockScales == null
              ? 0
              : tokens.scaleLayout() == ScaleLayout.COLUMN_MAJOR
                  ? staging.at(scratch.scales)
                  : staging.stable(blockScales, scratch.scales);
      Tensor factors = tokens.globalScales();
      globalScales = factors == null ? 0 : staging.stable(factors, scratch.globalScales);
    }

    /** Sets the addresses of {@code routing}. */
    public void load(Routing routing, Staging staging, ScratchLayout scratch) {
      wideIds = routing.topkIdx().dtype() == DType.INT64;
      ids = staging.stable(routing.topkIdx(), scratch.ids);
      Tensor w = routing.topkWeights();
      weights = w == null ? 0 : staging.stable(w, scratch.weights);
    }

    /**
     * Replaces the ids of a call by those of the buffer.
     *
     * @param ofBuffer for each expert of the call, that of the buffer
     * @param to address of INT64 [tokens, topK]; may be that of the ids
     */
    public void translate(int[] ofBuffer, int tokens, int topK, long to) {
      // Backwards: INT32 ids may lie at the start of the target.
      for (int t = tokens - 1; t >= 0; t--) {
        for (int k = topK - 1; k >= 0; k--) {
          long at = (long) t * topK + k;
          long id = id(at);
          if (id < -1 || id >= ofBuffer.length) {
            throw Arguments.noSuchExpert(t, k, id, ofBuffer.length);
          }
          requireOnce(id, t, k, topK);
          NativeMemory.putLong(to + at * 8, id < 0 ? id : ofBuffer[(int) id]);
        }
      }
      ids = to;
      wideIds = true;
    }

    /** Refuses an expert that the token has in an earlier choice: the error names the call's id. */
    private void requireOnce(long id, int token, int k, int topK) {
      for (int j = 0; j < k && id >= 0; j++) {
        if (id((long) token * topK + j) == id) {
          throw Arguments.duplicateExpert(token, k, id);
        }
      }
    }

    private long id(long at) {
      return wideIds ? NativeMemory.getLong(ids + at * 8) : NativeMemory.getInt(ids + at * 4);
    }

    /** Clears the routing: a cached dispatch has none. */
    public void clearRouting() {
      ids = 0;
      weights = 0;
    }
  }

  private final long scratch;
  private final long region;
  private final long regionBytes;

  /**
   * @param scratch address of the private memory, see {@link ScratchLayout}
   * @param region address of this rank's symmetric region
   */
  public Staging(long scratch, long region, long regionBytes) {
    this.scratch = scratch;
    this.region = region;
    this.regionBytes = regionBytes;
  }

  /** Whether the bytes are in this rank's symmetric memory, which all peers can access. */
  public boolean inRegion(Tensor tensor) {
    return tensor.nativeHost()
        && tensor.address() >= region
        && tensor.address() + tensor.byteSize() <= region + regionBytes;
  }

  /**
   * Address of the bytes, copied to {@code offset} of the private memory if necessary. Never 0,
   * which stands for an input that the operation does not have: a tensor without elements may lie
   * at 0, and still says what arrives from other ranks.
   */
  public long stable(Tensor tensor, long offset) {
    boolean inPlace = tensor.nativeHost() && !inRegion(tensor) && tensor.address() != 0;
    return inPlace ? tensor.address() : copied(tensor, offset);
  }

  /** Address of a copy of the bytes at {@code offset} of the private memory. */
  public long copied(Tensor tensor, long offset) {
    NativeMemory.copy(tensor.segment(), 0, scratch + offset, tensor.byteSize());
    return scratch + offset;
  }

  /** Address of {@code offset} in the private memory. */
  public long at(long offset) {
    return scratch + offset;
  }
}
