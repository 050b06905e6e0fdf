package org.ep4j.engine.host.internode;

import org.ep4j.engine.host.layout.ScaleOutLayout;

/**
 * Receives the chunks of one partner, see {@link ScaleOutLayout}, in order. The receiver may hold
 * several chunks and releases the oldest first.
 */
public final class ChunkReceiver {
  private final ScaleOut connection;
  private final int place;

  /** The partner. */
  public final int peer;

  /** Number of the chunk that {@link #next} returns. */
  private long taken;

  /** Chunks released. */
  private long released;

  /** Released chunks that the partner has not been notified of. */
  private long owed;

  ChunkReceiver(ScaleOut connection, int peer, int place) {
    this.connection = connection;
    this.peer = peer;
    this.place = place;
  }

  /** Address of the next chunk; 0 until it has arrived. */
  public long next() {
    if (!connection.arrived(peer, taken)) {
      return 0;
    }
    long address = connection.incoming() + connection.layout().chunk(place, taken);
    taken++;
    return address;
  }

  /** Releases all chunks except the newest {@code kept}. */
  public void releaseAllBut(int kept) {
    owed += taken - kept - released;
    released = taken - kept;
    push();
  }

  /** Notifies the partner of released chunks; whether it has been notified of all. */
  public boolean push() {
    if (owed != 0 && connection.credit(peer, owed)) {
      owed = 0;
    }
    return owed == 0;
  }

  /** Number of received chunks, for reports. */
  public long taken() {
    return taken;
  }
}
