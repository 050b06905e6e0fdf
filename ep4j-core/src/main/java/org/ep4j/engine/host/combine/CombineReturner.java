package org.ep4j.engine.host.combine;

import org.ep4j.config.Layout;
import org.ep4j.engine.host.context.Forward;
import org.ep4j.engine.host.context.HostHandle;
import org.ep4j.engine.host.context.HostHandle.RowTarget;
import org.ep4j.engine.host.context.SumTerms;
import org.ep4j.engine.host.exec.WorkQueue;
import org.ep4j.engine.host.exec.WorkerTeam;
import org.ep4j.engine.host.internode.ChunkSender;
import org.ep4j.engine.host.layout.ScaleOutLayout;
import org.ep4j.memory.NativeMemory;

/**
 * Returns the rows of this node for the tokens that one partner dispatched to the node through this
 * rank, in chunks. One worker fills each chunk; chunks leave in order.
 */
final class CombineReturner {
  private final ChunkSender sender;
  private final SumTerms terms;
  private final int maxTopK;
  private final long chunkBytes;
  private NodePartial[] partials = new NodePartial[0];
  private float[][] sums = new float[0][];

  /** Chunks that workers are filling, in order. */
  private final Filling[] chunks = new Filling[ScaleOutLayout.SLOTS];

  private Forward forward = new Forward();
  private boolean flat;
  private int topK;
  private long weightBytes;

  /** Number of tokens in begun chunks. */
  private int next;

  /** Chunks of this operation, and how many of them have been submitted. */
  private int begun;

  private int sent;
  private boolean last;

  /** A chunk and its tokens. */
  private final class Filling extends WorkQueue.Unit {
    final CombineChunk chunk = new CombineChunk();
    int first;
    long space;

    @Override
    public void run(int worker) {
      for (int i = first; i < first + chunk.tokens; i++) {
        int from = forward.start[i];
        int to = forward.start[i + 1];
        if (terms.partialRounding) {
          sum(partials[worker], sums[worker], from, to, chunk, i - first);
        } else {
          copy(from, to, chunk, from - forward.start[first]);
        }
      }
    }
  }

  CombineReturner(ChunkSender sender, SumTerms terms, int maxTopK, long chunkBytes) {
    this.sender = sender;
    this.terms = terms;
    this.maxTopK = maxTopK;
    this.chunkBytes = chunkBytes;
    for (int i = 0; i < chunks.length; i++) {
      chunks[i] = new Filling();
    }
  }

  /** The rank that dispatched the tokens. */
  int peer() {
    return sender.peer;
  }

  /** Number of sent chunks, for reports. */
  long sent() {
    return sender.sent();
  }

  void begin(HostHandle handle, Forward tokens, WorkerTeam team) {
    forward = tokens;
    flat = handle.layout == Layout.FLAT;
    topK = handle.topK;
    weightBytes = CombineChunk.weightBytes(terms, handle);
    next = 0;
    begun = 0;
    sent = 0;
    last = false;
    if (partials.length < team.size()) {
      partials = new NodePartial[team.size()];
      sums = new float[team.size()][maxTopK];
      for (int i = 0; i < partials.length; i++) {
        partials[i] = new NodePartial(terms, maxTopK);
      }
    }
  }

  /** Whether the wire has accepted all chunks. */
  boolean done() {
    return last && sent == begun && sender.push();
  }

  /**
   * Submits filled chunks, and gives further chunks to the workers while there is space; returns
   * whether it did either.
   */
  boolean step(long epoch, WorkQueue work) {
    boolean moved = false;
    // Also after the last chunk: the wire may not have accepted it yet.
    while (sender.push() && sent < begun && chunks[sent % chunks.length].done()) {
      Filling filled = chunks[sent++ % chunks.length];
      sender.send(filled.chunk.end - filled.space);
      moved = true;
    }
    while (!last && begun - sent < chunks.length) {
      long space = sender.space(begun - sent);
      if (space == 0) {
        break;
      }
      Filling filling = chunks[begun++ % chunks.length];
      filling.space = space;
      filling.first = next;
      choose(filling.chunk);
      next += filling.chunk.tokens;
      last = next == forward.tokens;
      filling.chunk.last = last;
      filling.chunk.epoch = epoch;
      filling.chunk.write(space, terms.rowBytes, weightBytes);
      work.give(filling);
      moved = true;
    }
    return moved;
  }

  /** Chooses as many tokens as fit. */
  private void choose(CombineChunk chunk) {
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

  private void sum(
      NodePartial partial, float[] sum, int first, int end, CombineChunk chunk, int place) {
    partial.rows(
        forward.routes,
        forward.routeWeights,
        first,
        end,
        flat,
        chunk.rows + place * terms.rowBytes);
    if (weightBytes != 0) {
      partial.weights(forward.routes, first, end, flat, sum, topK);
      for (int k = 0; k < topK; k++) {
        NativeMemory.putFloat(chunk.weights + place * weightBytes + 4L * k, sum[k]);
      }
    }
  }

  private void copy(int first, int end, CombineChunk chunk, int place) {
    for (int i = first; i < end; i++) {
      int rank = RowTarget.rank(forward.routes[i]);
      long slot = RowTarget.slot(forward.routes[i]);
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
