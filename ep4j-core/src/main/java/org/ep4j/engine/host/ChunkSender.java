package org.ep4j.engine.host;

import java.util.Arrays;
import java.util.Objects;
import org.ep4j.wire.Region;
import org.jspecify.annotations.Nullable;

/**
 * Sends chunks to one partner, see {@link ScaleOutLayout}. The user asks for {@link #space}, fills
 * it, says which bytes come from there and which from elsewhere, and hands the chunk over; {@link
 * #push} gives the wire what it did not take at once.
 */
final class ChunkSender {
  private final ScaleOut connection;
  private final int place;

  /** The partner. */
  final int peer;

  /** Number of the next chunk. */
  private long number;

  // The pieces of the chunk that is handed over, in their order: whence, where there, where in the
  // chunk, and how long. Columns, which all chunks use in turn: an object a piece would be garbage.
  private @Nullable Region[] sources = new Region[4];

  private long[] from = new long[4];
  private long[] at = new long[4];
  private long[] length = new long[4];
  private int pieces;

  /** Pieces that the wire has taken. */
  private int put;

  /** Whether all of the chunk has been handed over. */
  private boolean whole;

  ChunkSender(ScaleOut connection, int peer, int place) {
    this.connection = connection;
    this.peer = peer;
    this.place = place;
  }

  /** Where the next chunk is to be filled; 0 while there is no room for one. */
  long space() {
    return whole ? 0 : space(0);
  }

  /**
   * Where a chunk may be filled behind {@code ahead} others that have not been handed over; 0 while
   * there is no room for it.
   */
  long space(int ahead) {
    long next = number + ahead + (whole ? 1 : 0);
    if (next - connection.credits(peer) >= ScaleOutLayout.SLOTS) {
      return 0;
    }
    return connection.outgoing() + connection.layout().chunk(place, next);
  }

  /** The next {@code bytes} bytes of the chunk, from byte {@code offset} on, are in the room. */
  void fromSpace(long offset, long bytes) {
    long here = connection.layout().chunk(place, number) + offset;
    fromRegion(connection.outgoingRegion(), here, offset, bytes);
  }

  /**
   * The next bytes of the chunk, from byte {@code offset} on, are in {@code region} from {@code
   * where} on, which stays as it is until they are gone.
   */
  void fromRegion(Region region, long where, long offset, long bytes) {
    if (pieces == from.length) {
      sources = Arrays.copyOf(sources, 2 * pieces);
      from = Arrays.copyOf(from, 2 * pieces);
      at = Arrays.copyOf(at, 2 * pieces);
      length = Arrays.copyOf(length, 2 * pieces);
    }
    sources[pieces] = region;
    from[pieces] = where;
    at[pieces] = offset;
    length[pieces++] = bytes;
  }

  /** The first {@code bytes} bytes of the room are a chunk. */
  void send(long bytes) {
    fromSpace(0, bytes);
    send();
  }

  /** The pieces are a chunk. */
  void send() {
    whole = true;
    push();
  }

  /** Goes on with a chunk that the wire did not take; whether all chunks are with the wire. */
  boolean push() {
    if (!whole) {
      return true;
    }
    for (; put < pieces; put++) {
      Region source = Objects.requireNonNull(sources[put], "each piece has a source");
      if (!connection.putChunk(peer, number, source, from[put], at[put], length[put])) {
        return false;
      }
    }
    if (!connection.announce(peer, number)) {
      return false;
    }
    Arrays.fill(sources, null);
    pieces = 0;
    put = 0;
    whole = false;
    number++;
    return true;
  }

  /** Chunks that were sent, for reports. */
  long sent() {
    return number;
  }
}
