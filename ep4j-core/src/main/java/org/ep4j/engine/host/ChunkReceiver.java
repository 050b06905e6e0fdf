package org.ep4j.engine.host;

/**
 * Takes the chunks of one partner, see {@link ScaleOutLayout}, in their order. Several may be held
 * at once; they are given back oldest first.
 */
final class ChunkReceiver {
  private final ScaleOut connection;
  private final int place;

  /** The partner. */
  final int peer;

  /** Number of the chunk that {@link #next} gives. */
  private long taken;

  /** Chunks given back. */
  private long released;

  /** Chunks given back that the partner has not been told of. */
  private long owed;

  ChunkReceiver(ScaleOut connection, int peer, int place) {
    this.connection = connection;
    this.peer = peer;
    this.place = place;
  }

  /** Address of the next chunk; 0 while it has not come. */
  long next() {
    if (!connection.arrived(peer, taken)) {
      return 0;
    }
    long address = connection.incoming() + connection.layout().chunk(place, taken);
    taken++;
    return address;
  }

  /** Gives back all chunks but the youngest {@code kept}. */
  void releaseAllBut(int kept) {
    owed += taken - kept - released;
    released = taken - kept;
    push();
  }

  /** Tells the partner what it has not been told; whether it has been told all. */
  boolean push() {
    if (owed != 0 && connection.credit(peer, owed)) {
      owed = 0;
    }
    return owed == 0;
  }

  /** Chunks that were taken, for reports. */
  long taken() {
    return taken;
  }
}
