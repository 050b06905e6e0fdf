package org.ep4j.engine.host.combine;

import org.ep4j.engine.host.context.HostHandle;
import org.ep4j.engine.host.context.InternodeRows;
import org.ep4j.engine.host.context.NodeRoutes;
import org.ep4j.engine.host.context.SumTerms;
import org.ep4j.engine.host.internode.ChunkReceiver;
import org.ep4j.engine.host.layout.ScaleOutLayout;

/**
 * Receives the rows of one other node for this rank's tokens, and reports up to which token the
 * rows are complete. A chunk is held until the tokens in it have been summed.
 */
final class CombineReceiver {
  private final ChunkReceiver receiver;
  private final NodeRoutes there;
  private final CombineChunk chunk = new CombineChunk();

  /** For each held chunk, oldest first, the token after the last one in it. */
  private final int[] behind = new int[ScaleOutLayout.SLOTS];

  private int held;
  private int next;
  private boolean last;

  CombineReceiver(ChunkReceiver receiver, NodeRoutes there) {
    this.receiver = receiver;
    this.there = there;
  }

  /** The sending rank. */
  int peer() {
    return receiver.peer;
  }

  /** Number of received chunks, for reports. */
  long taken() {
    return receiver.taken();
  }

  void begin(HostHandle handle) {
    held = 0;
    last = false;
    next = 0;
    skip(handle);
  }

  /** Advances to the next token that has routes to the node. */
  private void skip(HostHandle handle) {
    while (next < handle.tokens && there.firstOf(handle, next) < 0) {
      next++;
    }
  }

  /** Tokens before this one have all rows from the node. */
  int ready() {
    return next;
  }

  /** Whether all chunks have arrived. */
  boolean arrived() {
    return last;
  }

  /** Whether all chunks have arrived and been released. */
  boolean done() {
    return last && held == 0 && receiver.push();
  }

  /** Reads a chunk if one has arrived; returns whether it did. */
  boolean step(HostHandle handle, SumTerms terms, InternodeRows internode, long epoch) {
    receiver.push();
    if (last || held == behind.length) {
      return false;
    }
    long address = receiver.next();
    if (address == 0) {
      return false;
    }
    long weightBytes = CombineChunk.weightBytes(terms, handle);
    chunk.read(address, terms.rowBytes, weightBytes);
    if (chunk.epoch != epoch) {
      throw new IllegalStateException(
          "rank " + peer() + " sent sums of epoch " + chunk.epoch + " in epoch " + epoch);
    }
    int place = 0;
    for (int n = 0; n < chunk.tokens; n++) {
      int route = there.firstOf(handle, next);
      do {
        internode.row[route] = chunk.rows + place * terms.rowBytes;
        internode.weights[route] = chunk.weights + place * weightBytes;
        place++;
        route++;
      } while (!terms.partialRounding
          && route < handle.start[next + 1]
          && there.holds(handle.routes[route]));
      next++;
      skip(handle);
    }
    behind[held++] = next;
    last = chunk.last;
    return true;
  }

  /** Releases the chunks that hold only tokens before {@code summed}. */
  void release(int summed) {
    int gone = 0;
    while (gone < held && behind[gone] <= summed) {
      gone++;
    }
    if (gone > 0) {
      System.arraycopy(behind, gone, behind, 0, held - gone);
      held -= gone;
      receiver.releaseAllBut(held);
    }
  }
}
