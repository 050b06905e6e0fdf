package org.ep4j.engine.host;

import org.ep4j.Layout;
import org.ep4j.memory.NativeMemory;

/**
 * Sends back what this node has for the tokens that one partner dispatched to it through this rank,
 * a chunk at a time; the workers of the rank share each chunk.
 */
final class CombineReturner implements WorkerTeam.Task {
  private final ChunkSender sender;
  private final SumTerms terms;
  private final int hidden;
  private final int maxTopK;
  private final long chunkBytes;
  private final CombineChunk chunk = new CombineChunk();
  private NodePartial[] partials = new NodePartial[0];
  private float[][] sums = new float[0][];

  private Forward forward = new Forward();
  private boolean flat;
  private int topK;
  private long weightBytes;
  private int next;

  /** Where the chunk is that is being filled. */
  private long room;

  private boolean done;

  CombineReturner(ChunkSender sender, SumTerms terms, int hidden, int maxTopK, long chunkBytes) {
    this.sender = sender;
    this.terms = terms;
    this.hidden = hidden;
    this.maxTopK = maxTopK;
    this.chunkBytes = chunkBytes;
  }

  /** The rank that dispatched the tokens. */
  int peer() {
    return sender.peer;
  }

  /** Chunks that were sent, for reports. */
  long sent() {
    return sender.sent();
  }

  void begin(HostHandle handle, Forward tokens) {
    forward = tokens;
    flat = handle.layout == Layout.FLAT;
    topK = handle.topK;
    weightBytes = CombineChunk.weightBytes(terms, handle);
    next = 0;
    done = false;
  }

  /** Whether all is with the wire. */
  boolean done() {
    return done && sender.push();
  }

  /**
   * Starts to fill a chunk if there is room for one; whether it did. When the team is done, {@link
   * #filled}.
   */
  boolean start(long epoch, WorkerTeam team) {
    // Also at the end: the wire may not have taken the last chunk yet.
    boolean taken = sender.push();
    if (done || !taken) {
      return false;
    }
    room = sender.room();
    if (room == 0) {
      return false;
    }
    choose();
    chunk.last = next + chunk.tokens == forward.tokens;
    chunk.epoch = epoch;
    chunk.write(room, terms.rowBytes, weightBytes);
    if (partials.length < team.size()) {
      partials = new NodePartial[team.size()];
      sums = new float[team.size()][maxTopK];
      for (int i = 0; i < partials.length; i++) {
        partials[i] = new NodePartial(terms, hidden, maxTopK);
      }
    }
    team.start(this);
    return true;
  }

  /** The chunk has been filled: sends it. */
  void filled() {
    next += chunk.tokens;
    done = chunk.last;
    sender.send(chunk.end - room);
  }

  /** Takes as many tokens as fit. */
  private void choose() {
    long left = chunkBytes - CombineChunk.OVERHEAD;
    long each = terms.rowBytes + weightBytes;
    chunk.tokens = 0;
    chunk.count = 0;
    for (int i = next; i < forward.tokens; i++) {
      int rows = terms.partialRounding ? 1 : forward.start[i + 1] - forward.start[i];
      left -= rows * each;
      if (left < 0) {
        return;
      }
      chunk.tokens++;
      chunk.count += rows;
    }
  }

  @Override
  public void run(int worker, int workers) {
    int from = next + (int) ((long) chunk.tokens * worker / workers);
    int to = next + (int) ((long) chunk.tokens * (worker + 1) / workers);
    for (int i = from; i < to; i++) {
      int first = forward.start[i];
      int end = forward.start[i + 1];
      if (terms.partialRounding) {
        sum(partials[worker], sums[worker], first, end, i - next);
      } else {
        copy(first, end, first - forward.start[next]);
      }
    }
  }

  private void sum(NodePartial partial, float[] sum, int first, int end, int place) {
    partial.rows(forward.ways, first, end, flat, chunk.rows + place * terms.rowBytes);
    if (weightBytes != 0) {
      partial.weights(forward.ways, first, end, flat, sum, topK);
      for (int k = 0; k < topK; k++) {
        NativeMemory.putFloat(chunk.weights + place * weightBytes + 4L * k, sum[k]);
      }
    }
  }

  private void copy(int first, int end, int place) {
    for (int i = first; i < end; i++) {
      int rank = Ways.rank(forward.ways[i]);
      long slot = Ways.slot(forward.ways[i]);
      long to = (long) place + i - first;
      NativeMemory.copy(
          terms.rows[rank] + slot * terms.rowBytes,
          chunk.rows + to * terms.rowBytes,
          terms.rowBytes);
      if (weightBytes != 0) {
        NativeMemory.copy(
            terms.weights[rank] + slot * weightBytes,
            chunk.weights + to * weightBytes,
            weightBytes);
      }
    }
  }
}
