package org.ep4j.engine.host.dispatch;

import org.ep4j.engine.host.context.HostHandle;
import org.ep4j.engine.host.context.NodeRoutes;
import org.ep4j.engine.host.context.Staging.Payload;
import org.ep4j.engine.host.internode.ChunkSender;
import org.ep4j.memory.NativeMemory;
import org.ep4j.wire.Region;
import org.jspecify.annotations.Nullable;

/**
 * Sends the tokens of one dispatch to one other node, a chunk at a time. The wire reads long runs
 * of consecutive rows from the caller's memory where it can; other rows are copied into the chunk.
 */
final class DispatchSender {
  /** Minimum bytes of such a run: shorter puts do not pay, and wires copy them anyway. */
  private static final long RUN = 64 << 10;

  private final ChunkSender sender;
  private final NodeRoutes there;
  private final long chunkBytes;
  private final DispatchChunk chunk = new DispatchChunk();

  /** The tokens of the chunk that is being filled, and for each its first route to the node. */
  private int[] chosen = new int[0];

  private int[] firstRoute = new int[0];

  /** The rows of all tokens; null if the wire cannot read them in place. */
  private @Nullable Region rows;

  private int next;
  private boolean done;

  DispatchSender(ChunkSender sender, NodeRoutes there, long chunkBytes) {
    this.sender = sender;
    this.there = there;
    this.chunkBytes = chunkBytes;
  }

  /** The receiving rank. */
  int peer() {
    return sender.peer;
  }

  /** Number of sent chunks, for reports. */
  long sent() {
    return sender.sent();
  }

  /**
   * @param all the rows of all tokens for the wire; null if it cannot read them
   */
  void begin(@Nullable Region all) {
    rows = all;
    next = 0;
    done = false;
  }

  /** Whether the wire has accepted all chunks. */
  boolean done() {
    return done && sender.push();
  }

  /** Sends a chunk if there is space; returns whether it did. */
  boolean step(HostHandle handle, Payload payload, long epoch) {
    // Also after the last chunk: the wire may not have accepted it yet.
    boolean taken = sender.push();
    if (done || !taken) {
      return false;
    }
    long space = sender.space();
    if (space == 0) {
      return false;
    }
    choose(handle, payload);
    chunk.last = next == handle.tokens;
    chunk.epoch = epoch;
    chunk.write(space, payload, handle.topK);
    fill(handle, payload);
    collect(space, payload);
    done = chunk.last;
    sender.send();
    return true;
  }

  /** Chooses as many tokens as fit. */
  private void choose(HostHandle handle, Payload payload) {
    long tokenBytes = DispatchChunk.tokenBytes(payload, handle.topK);
    long left = chunkBytes - DispatchChunk.OVERHEAD;
    int max = (int) Math.min(handle.tokens, left / tokenBytes);
    if (chosen.length < max) {
      chosen = new int[max];
      firstRoute = new int[max];
    }
    chunk.tokens = 0;
    chunk.routes = 0;
    for (; next < handle.tokens; next++) {
      int end = handle.start[next + 1];
      int first = end;
      int routes = 0;
      for (int i = handle.start[next]; i < end; i++) {
        if (there.holds(handle.routes[i])) {
          first = Math.min(first, i);
          routes++;
        }
      }
      if (routes > 0) {
        left -= tokenBytes + 8L * routes;
        if (left < 0) {
          return;
        }
        chosen[chunk.tokens] = next;
        firstRoute[chunk.tokens++] = first;
        chunk.routes += routes;
      }
    }
  }

  private void fill(HostHandle handle, Payload payload) {
    long idBytes = payload.wideIds ? Long.BYTES : Integer.BYTES;
    int routes = 0;
    for (int n = 0; n < chunk.tokens; n++) {
      int token = chosen[n];
      for (int i = firstRoute[n]; i < handle.start[token + 1]; i++) {
        if (there.holds(handle.routes[i])) {
          NativeMemory.putLong(chunk.routeWords + 8L * routes++, handle.routes[i]);
        }
      }
      NativeMemory.putInt(chunk.sourceTokens + 4L * n, token);
      NativeMemory.putInt(chunk.ends + 4L * n, routes);
      copy(payload.ids, token, chunk.ids, n, handle.topK * idBytes);
      copy(payload.weights, token, chunk.weights, n, handle.topK * 4L);
      copy(payload.globalScales, token, chunk.globalScales, n, Float.BYTES);
      copy(payload.scales, token, chunk.scales, n, payload.scaleBytes);
    }
  }

  /** Collects the pieces of the chunk: runs of rows, and the parts of the space between them. */
  private void collect(long space, Payload payload) {
    long rowBytes = payload.rowBytes;
    Region all = rows;
    long begin = 0;
    int end;
    for (int n = 0; n < chunk.tokens; n = end) {
      end = n + 1;
      while (end < chunk.tokens && chosen[end] == chosen[end - 1] + 1) {
        end++;
      }
      long from = chosen[n] * rowBytes;
      long at = chunk.rows - space + n * rowBytes;
      long bytes = (end - n) * rowBytes;
      if (all != null && bytes >= RUN) {
        if (begin < at) {
          sender.fromSpace(begin, at - begin);
        }
        sender.fromRegion(all, from, at, bytes);
        begin = at + bytes;
      } else {
        NativeMemory.copy(payload.x + from, space + at, bytes);
      }
    }
    if (begin < chunk.end - space) {
      sender.fromSpace(begin, chunk.end - space - begin);
    }
  }

  private static void copy(long from, int token, long to, int place, long bytes) {
    if (from != 0 && bytes != 0) {
      NativeMemory.copy(from + token * bytes, to + place * bytes, bytes);
    }
  }
}
