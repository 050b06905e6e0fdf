package org.ep4j.engine.host;

/**
 * Sends chunks to one partner, see {@link ScaleOutLayout}. The user asks for {@link #room}, fills
 * it, and hands it over; {@link #push} gives the wire what it did not take at once.
 */
final class ChunkSender {
  /** Steps of handing a chunk to the wire. */
  private static final int NOTHING = 0;

  private static final int TO_PUT = 1;
  private static final int TO_ANNOUNCE = 2;

  private final ScaleOut connection;
  private final int place;

  /** The partner. */
  final int peer;

  /** Number of the next chunk. */
  private long number;

  private int step = NOTHING;
  private long bytes;

  ChunkSender(ScaleOut connection, int peer, int place) {
    this.connection = connection;
    this.peer = peer;
    this.place = place;
  }

  /** Where the next chunk is to be filled; 0 while there is no room for one. */
  long room() {
    if (step != NOTHING || number - connection.credits(peer) >= ScaleOutLayout.SLOTS) {
      return 0;
    }
    return connection.outgoing() + connection.layout().chunk(place, number);
  }

  /** The first {@code length} bytes of the room are a chunk. */
  void send(long length) {
    bytes = length;
    step = TO_PUT;
    push();
  }

  /** Goes on with a chunk that the wire did not take; whether all chunks are with the wire. */
  boolean push() {
    if (step == TO_PUT && connection.putChunk(peer, place, number, bytes)) {
      step = TO_ANNOUNCE;
    }
    if (step == TO_ANNOUNCE && connection.announce(peer, number)) {
      step = NOTHING;
      number++;
    }
    return step == NOTHING;
  }

  /** Chunks that were sent, for reports. */
  long sent() {
    return number;
  }
}
