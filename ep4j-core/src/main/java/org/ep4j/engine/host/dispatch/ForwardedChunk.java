package org.ep4j.engine.host.dispatch;

import org.ep4j.config.Layout;
import org.ep4j.engine.host.context.Forward;
import org.ep4j.engine.host.context.HostHandle;
import org.ep4j.engine.host.context.Staging.Payload;
import org.ep4j.engine.host.exec.WorkQueue;
import org.ep4j.engine.host.exec.WorkerTeam;
import org.ep4j.memory.NativeMemory;
import org.ep4j.memory.NonTemporalCopy.PresentPages;
import org.jspecify.annotations.Nullable;

/** A chunk of a dispatch from another node that workers push to this node. */
final class ForwardedChunk {
  private final DispatchChunk chunk = new DispatchChunk();

  /** The chunk's arrays as a payload that begins with token 0 of the forward. */
  private final Payload payload = new Payload();

  private final RowPush push;
  private final PushUnit unit;

  /**
   * @param ownRows push of this rank's own rows, to the same ranks
   * @param pages that are known to be present, shared by all chunks
   */
  ForwardedChunk(RowPush ownRows, @Nullable PresentPages pages) {
    push = new RowPush(ownRows, payload, pages);
    payload.streamable = true; // the memory of a chunk is this process's own
    unit = new PushUnit(push);
  }

  /** Whether its rows have been pushed. */
  boolean pushed() {
    return unit.done();
  }

  /**
   * Gives the chunk at {@code address} to the workers.
   *
   * @param forward the tokens of {@code peer} so far; the chunk's tokens are added
   * @param own the payload of this rank
   * @return whether this is the last chunk of the operation
   */
  boolean begin(
      long address,
      int peer,
      HostHandle handle,
      Forward forward,
      Payload own,
      long epoch,
      WorkerTeam team,
      WorkQueue work) {
    chunk.read(address, own, handle.topK);
    if (chunk.epoch != epoch) {
      throw new IllegalStateException(
          "rank " + peer + " sent rows of epoch " + chunk.epoch + " in epoch " + epoch);
    }
    int first = forward.tokens;
    append(forward);
    if (handle.layout == Layout.EXPERT_MAJOR && own.weights != 0) {
      for (int n = 0; n < chunk.tokens; n++) {
        forward.keepWeights(first + n, chunk.weights + (long) n * handle.topK * Float.BYTES);
      }
    }
    locate(own, handle.topK, first);
    push.prepare(handle, forward, first, peer, team);
    unit.set(first, forward.tokens);
    work.giveUrgent(unit);
    return chunk.last;
  }

  private void append(Forward forward) {
    forward.ensure(chunk.tokens, chunk.routes);
    int first = forward.tokens;
    int base = forward.start[first];
    for (int n = 0; n < chunk.tokens; n++) {
      forward.sourceTokens[first + n] = NativeMemory.getInt(chunk.sourceTokens + 4L * n);
      forward.start[first + n + 1] = base + NativeMemory.getInt(chunk.ends + 4L * n);
    }
    for (int i = 0; i < chunk.routes; i++) {
      forward.routes[base + i] = NativeMemory.getLong(chunk.routeWords + 8L * i);
    }
    forward.tokens += chunk.tokens;
  }

  private void locate(Payload own, int topK, int first) {
    payload.dtype = own.dtype;
    payload.rowBytes = own.rowBytes;
    payload.scaleBytes = own.scaleBytes;
    payload.wideIds = chunk.wideIds;
    payload.x = chunk.rows - first * own.rowBytes;
    payload.scales = chunk.scales - first * own.scaleBytes;
    payload.globalScales = own.globalScales == 0 ? 0 : chunk.globalScales - 4L * first;
    payload.weights = own.weights == 0 ? 0 : chunk.weights - 4L * topK * first;
    long idBytes = chunk.wideIds ? Long.BYTES : Integer.BYTES;
    payload.ids = own.ids == 0 ? 0 : chunk.ids - idBytes * topK * first;
  }
}
