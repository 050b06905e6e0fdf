package org.ep4j.engine.host;

import org.ep4j.memory.NativeMemory;

/** Takes the tokens that one rank of another node sends to this node, and pushes them to it. */
final class DispatchForwarder {
  private final ChunkReceiver receiver;
  private final Payload inChunk;
  private final RowPush push;
  private final DispatchChunk chunk = new DispatchChunk();
  private boolean done;

  /**
   * @param inChunk where {@code push} looks for rows
   * @param push writes into the memory of this node
   */
  DispatchForwarder(ChunkReceiver receiver, Payload inChunk, RowPush push) {
    this.receiver = receiver;
    this.inChunk = inChunk;
    this.push = push;
  }

  /** The rank that sends. */
  int peer() {
    return receiver.peer;
  }

  /** Chunks that have come, for reports. */
  long taken() {
    return receiver.taken();
  }

  void begin() {
    done = false;
  }

  /** Whether everything has come and been pushed. */
  boolean done() {
    return done && receiver.push();
  }

  /**
   * Starts to push a chunk if one has come; whether it did. When the team is done, {@link #pushed}.
   *
   * @param forward the tokens, to be filled with those that come
   */
  boolean start(HostHandle handle, Forward forward, Payload payload, long epoch, WorkerTeam team) {
    receiver.push();
    if (done) {
      return false;
    }
    long address = receiver.next();
    if (address == 0) {
      return false;
    }
    chunk.read(address, payload, handle.topK);
    if (chunk.epoch != epoch) {
      throw new IllegalStateException(
          "rank " + peer() + " sent rows of epoch " + chunk.epoch + " in epoch " + epoch);
    }
    int from = forward.tokens;
    append(forward);
    locate(payload, handle.topK, from);
    push.forward(handle, forward, from, receiver.peer, team);
    return true;
  }

  /** The chunk has been pushed. */
  void pushed() {
    receiver.releaseAllBut(0);
    done = chunk.last;
  }

  private void append(Forward forward) {
    forward.ensure(chunk.tokens, chunk.ways);
    int first = forward.tokens;
    int base = forward.start[first];
    for (int n = 0; n < chunk.tokens; n++) {
      forward.sourceTokens[first + n] = NativeMemory.getInt(chunk.sourceTokens + 4L * n);
      forward.start[first + n + 1] = base + NativeMemory.getInt(chunk.ends + 4L * n);
    }
    for (int i = 0; i < chunk.ways; i++) {
      forward.ways[base + i] = NativeMemory.getLong(chunk.wayWords + 8L * i);
    }
    forward.tokens += chunk.tokens;
  }

  /** Points {@link #inChunk} to the arrays as if they began with token 0 of the forward. */
  private void locate(Payload payload, int topK, int first) {
    inChunk.dtype = payload.dtype;
    inChunk.rowBytes = payload.rowBytes;
    inChunk.scaleBytes = payload.scaleBytes;
    inChunk.wideIds = chunk.wideIds;
    inChunk.x = chunk.rows - first * payload.rowBytes;
    inChunk.scales = chunk.scales - first * payload.scaleBytes;
    inChunk.globalScales = payload.globalScales == 0 ? 0 : chunk.globalScales - 4L * first;
    inChunk.weights = payload.weights == 0 ? 0 : chunk.weights - 4L * topK * first;
    long idBytes = chunk.wideIds ? Long.BYTES : Integer.BYTES;
    inChunk.ids = payload.ids == 0 ? 0 : chunk.ids - idBytes * topK * first;
  }
}
