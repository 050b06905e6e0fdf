package org.ep4j.engine.host;

/**
 * Takes what one other node has for this rank's tokens, and says up to which token everything is
 * there. Chunks stay until the tokens in them have been summed.
 */
final class CombineStream {
  private final ChunkReceiver receiver;
  private final int firstRank;
  private final int endRank;
  private final CombineChunk chunk = new CombineChunk();

  /** For each chunk that is held, the first token behind those in it, oldest first. */
  private final int[] behind = new int[ScaleOutLayout.SLOTS];

  private int held;
  private int next;
  private boolean last;

  /**
   * @param firstRank first rank of the node
   * @param endRank behind its last one
   */
  CombineStream(ChunkReceiver receiver, int firstRank, int endRank) {
    this.receiver = receiver;
    this.firstRank = firstRank;
    this.endRank = endRank;
  }

  /** The rank that sends. */
  int peer() {
    return receiver.peer;
  }

  /** Chunks that have come, for reports. */
  long taken() {
    return receiver.taken();
  }

  void begin(HostHandle handle) {
    held = 0;
    last = false;
    next = 0;
    skip(handle);
  }

  /** Moves to the next token that has ways to the node. */
  private void skip(HostHandle handle) {
    while (next < handle.tokens && firstWay(handle, next) < 0) {
      next++;
    }
  }

  private int firstWay(HostHandle handle, int token) {
    for (int i = handle.start[token]; i < handle.start[token + 1]; i++) {
      if (goesThere(handle.ways[i])) {
        return i;
      }
    }
    return -1;
  }

  private boolean goesThere(long way) {
    return way >= 0 && Ways.rank(way) >= firstRank && Ways.rank(way) < endRank;
  }

  /** Tokens before this one have all that they get from the node. */
  int ready() {
    return next;
  }

  /** Whether everything has come and been given back. */
  boolean done() {
    return last && held == 0 && receiver.push();
  }

  /** Takes a chunk if one has come; whether it did. */
  boolean step(HostHandle handle, SumTerms terms, FarRows far, long epoch) {
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
      int way = firstWay(handle, next);
      do {
        far.row[way] = chunk.rows + place * terms.rowBytes;
        far.weights[way] = chunk.weights + place * weightBytes;
        place++;
        way++;
      } while (!terms.partialRounding
          && way < handle.start[next + 1]
          && goesThere(handle.ways[way]));
      next++;
      skip(handle);
    }
    behind[held++] = next;
    last = chunk.last;
    return true;
  }

  /** Tokens before {@code summed} need their chunks no more. */
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
