package org.ep4j.engine.host.dispatch;

import org.ep4j.engine.host.context.Forward;
import org.ep4j.engine.host.context.HostHandle;
import org.ep4j.engine.host.context.Staging.Payload;
import org.ep4j.engine.host.exec.WorkQueue;
import org.ep4j.engine.host.exec.WorkerTeam;
import org.ep4j.engine.host.internode.ChunkReceiver;
import org.ep4j.engine.host.layout.ScaleOutLayout;
import org.ep4j.memory.NonTemporalCopy.PresentPages;
import org.jspecify.annotations.Nullable;

/**
 * Receives the tokens that one rank of another node sends to this node, and has workers push them
 * to the node.
 */
final class DispatchForwarder {
  private final ChunkReceiver receiver;

  /** Received chunks, in order. */
  private final ForwardedChunk[] chunks = new ForwardedChunk[ScaleOutLayout.SLOTS];

  /** Chunks of this operation, and how many of them have been released. */
  private int begun;

  private int released;
  private boolean last;

  /**
   * @param ownRows push of this rank's own rows, to the same ranks
   * @param pages that are known to be present, shared by all forwarders
   */
  DispatchForwarder(RowPush ownRows, @Nullable PresentPages pages, ChunkReceiver receiver) {
    this.receiver = receiver;
    for (int i = 0; i < chunks.length; i++) {
      chunks[i] = new ForwardedChunk(ownRows, pages);
    }
  }

  /** The sending rank. */
  int peer() {
    return receiver.peer;
  }

  /** Number of received chunks, for reports. */
  long taken() {
    return receiver.taken();
  }

  void begin() {
    begun = 0;
    released = 0;
    last = false;
  }

  /** Whether all chunks have arrived and been pushed. */
  boolean done() {
    return last && released == begun && receiver.push();
  }

  /**
   * Releases pushed chunks and gives arrived chunks to the workers; returns whether there were any.
   *
   * @param forward collects the tokens of arrived chunks
   */
  boolean step(
      HostHandle handle,
      Forward forward,
      Payload own,
      long epoch,
      WorkerTeam team,
      WorkQueue work) {
    boolean moved = release();
    while (!last && begun - released < chunks.length) {
      long address = receiver.next();
      if (address == 0) {
        break;
      }
      ForwardedChunk chunk = chunks[begun % chunks.length];
      last = chunk.begin(address, receiver.peer, handle, forward, own, epoch, team, work);
      begun++;
      moved = true;
    }
    return moved;
  }

  private boolean release() {
    int before = released;
    while (released < begun && chunks[released % chunks.length].pushed()) {
      released++;
    }
    receiver.releaseAllBut(begun - released);
    return released != before;
  }
}
