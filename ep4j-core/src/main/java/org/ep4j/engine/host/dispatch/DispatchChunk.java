package org.ep4j.engine.host.dispatch;

import org.ep4j.engine.host.context.Staging.Payload;
import org.ep4j.engine.host.layout.ControlPageLayout;
import org.ep4j.engine.host.layout.HighThroughputLayout;
import org.ep4j.engine.host.layout.ScaleOutLayout;
import org.ep4j.memory.NativeMemory;

/**
 * Layout of a chunk of a dispatch: tokens from one source to one node, as arrays. Written by the
 * source before it signals the chunk, read by its rail in that node ({@link ScaleOutLayout}).
 *
 * <p>Header, then routes, ids, source tokens, ends of routes, weights, factors, scales and rows of
 * its tokens; arrays that a payload does not have take no bytes.
 */
public final class DispatchChunk {
  /** Upper bound of the bytes of headers and padding. */
  static final long OVERHEAD = 512;

  private static final long TOKENS = 0;
  private static final long ROUTES = 4;
  private static final long LAST = 8;
  private static final long WIDE_IDS = 12;
  private static final long EPOCH = 16;
  private static final long HEADER = 64;

  int tokens;
  int routes;

  /** Whether this is the last chunk of the operation. */
  boolean last;

  /** Whether ids are long; ranks may differ in this. */
  boolean wideIds;

  /** Epoch of the operation. */
  long epoch;

  /** Addresses of the arrays. */
  long routeWords;

  long ids;
  long sourceTokens;
  long ends;
  long weights;
  long globalScales;
  long scales;
  long rows;

  /** End of the last array. */
  long end;

  /** Upper bound of the bytes of a token, without its routes. */
  static long tokenBytes(Payload payload, int topK) {
    return payload.rowBytes
        + payload.scaleBytes
        + 2L * Integer.BYTES
        + (payload.globalScales == 0 ? 0 : Float.BYTES)
        + topK * (idBytes(payload, payload.wideIds) + (payload.weights == 0 ? 0 : Float.BYTES));
  }

  private static long idBytes(Payload payload, boolean wide) {
    return payload.ids == 0 ? 0 : wide ? Long.BYTES : Integer.BYTES;
  }

  /** Upper bound of the bytes of a token over all dispatches of the buffer. */
  public static long max(HighThroughputLayout layout, int topK) {
    return OVERHEAD
        + layout.maxRowBytes
        + layout.maxScaleBytes
        + 3L * Integer.BYTES
        + topK * (2L * Long.BYTES + Float.BYTES);
  }

  /** Places the arrays of a chunk at {@code address}, and writes the header. */
  void write(long address, Payload payload, int topK) {
    NativeMemory.putInt(address + TOKENS, tokens);
    NativeMemory.putInt(address + ROUTES, routes);
    NativeMemory.putInt(address + LAST, last ? 1 : 0);
    wideIds = payload.wideIds;
    NativeMemory.putInt(address + WIDE_IDS, wideIds ? 1 : 0);
    NativeMemory.putLong(address + EPOCH, epoch);
    place(address, payload, topK);
  }

  /** Reads the header at {@code address}, and finds the arrays; {@code payload} is the reader's. */
  void read(long address, Payload payload, int topK) {
    tokens = NativeMemory.getInt(address + TOKENS);
    routes = NativeMemory.getInt(address + ROUTES);
    last = NativeMemory.getInt(address + LAST) != 0;
    wideIds = NativeMemory.getInt(address + WIDE_IDS) != 0;
    epoch = NativeMemory.getLong(address + EPOCH);
    place(address, payload, topK);
  }

  private void place(long address, Payload payload, int topK) {
    routeWords = address + HEADER;
    ids = routeWords + 8L * routes;
    sourceTokens = ids + (long) tokens * topK * idBytes(payload, wideIds);
    ends = sourceTokens + 4L * tokens;
    weights = ends + 4L * tokens;
    globalScales = weights + (payload.weights == 0 ? 0 : 4L * tokens * topK);
    long behind = globalScales + (payload.globalScales == 0 ? 0 : 4L * tokens);
    scales = ControlPageLayout.align(behind, 16);
    rows = ControlPageLayout.align(scales + tokens * payload.scaleBytes, 64);
    end = rows + tokens * payload.rowBytes;
  }
}
