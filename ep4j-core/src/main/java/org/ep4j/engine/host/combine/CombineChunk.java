package org.ep4j.engine.host.combine;

import org.ep4j.config.Layout;
import org.ep4j.engine.host.context.HostHandle;
import org.ep4j.engine.host.context.SumTerms;
import org.ep4j.engine.host.layout.ControlPageLayout;
import org.ep4j.engine.host.layout.ScaleOutLayout;
import org.ep4j.memory.NativeMemory;

/**
 * Layout of a chunk of a combine: the rows of a node for tokens of one rank of another node, in the
 * order in which that rank dispatched them. Written by the rail that forwarded the tokens, read by
 * their source rank ({@link ScaleOutLayout}).
 *
 * <p>With partial rounding a token has one row, the node's partial sum, and [topK] weights. Without
 * it a token has all its rows in the order of its routes, each with [topK] weights (FLAT) or one
 * (EXPERT_MAJOR).
 */
public final class CombineChunk {
  /** Upper bound of the bytes of header and padding. */
  static final long OVERHEAD = 256;

  private static final long TOKENS = 0;
  private static final long ROWS = 4;
  private static final long LAST = 8;
  private static final long EPOCH = 16;
  private static final long HEADER = 64;

  int tokens;

  /** Number of rows. */
  int count;

  /** Whether this is the last chunk of the operation. */
  boolean last;

  /** Epoch of the operation. */
  long epoch;

  /** Addresses of the arrays. */
  long weights;

  long rows;

  /** End of the last array. */
  long end;

  /** Bytes of the weights of a row; 0 without weights. */
  static long weightBytes(SumTerms terms, HostHandle handle) {
    if (terms.weightSums == 0) {
      return 0;
    }
    boolean one = !terms.partialRounding && handle.layout == Layout.EXPERT_MAJOR;
    return one ? Float.BYTES : (long) Float.BYTES * handle.topK;
  }

  /** Upper bound of the bytes of a token over all combines of the buffer. */
  public static long max(int hidden, int topK) {
    return OVERHEAD + topK * (Float.BYTES * (long) hidden + (long) Float.BYTES * topK);
  }

  /** Places the arrays of a chunk at {@code address}, and writes the header. */
  void write(long address, long rowBytes, long weightBytes) {
    NativeMemory.putInt(address + TOKENS, tokens);
    NativeMemory.putInt(address + ROWS, count);
    NativeMemory.putInt(address + LAST, last ? 1 : 0);
    NativeMemory.putLong(address + EPOCH, epoch);
    place(address, rowBytes, weightBytes);
  }

  /** Reads the header at {@code address}, and finds the arrays. */
  void read(long address, long rowBytes, long weightBytes) {
    tokens = NativeMemory.getInt(address + TOKENS);
    count = NativeMemory.getInt(address + ROWS);
    last = NativeMemory.getInt(address + LAST) != 0;
    epoch = NativeMemory.getLong(address + EPOCH);
    place(address, rowBytes, weightBytes);
  }

  private void place(long address, long rowBytes, long weightBytes) {
    weights = address + HEADER;
    rows = ControlPageLayout.align(weights + count * weightBytes, 64);
    end = rows + count * rowBytes;
  }
}
