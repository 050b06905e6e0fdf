package org.ep4j.engine.host.internode;

import java.util.Arrays;
import java.util.Objects;
import org.ep4j.engine.host.layout.ScaleOutLayout;
import org.ep4j.wire.Region;
import org.jspecify.annotations.Nullable;

/**
 * Sends chunks to one partner, see {@link ScaleOutLayout}. The caller gets {@link #space}, fills
 * it, names the bytes that are in this space and those in other regions, and submits the chunk;
 * {@link #push} passes on what the wire did not accept at once.
 */
public final class ChunkSender {
  private final ScaleOut connection;
  private final int place;

  /** The partner. */
  public final int peer;

  /** Number of the next chunk. */
  private long number;

  // The pieces of the submitted chunk in order: source region, source offset, offset in the chunk,
  // length. Parallel arrays that all chunks reuse: one object per piece would be garbage.
  private @Nullable Region[] sources = new Region[4];

  private long[] from = new long[4];
  private long[] at = new long[4];
  private long[] length = new long[4];
  private int pieces;

  /** Pieces that the wire has accepted. */
  private int put;

  /** Whether the whole chunk has been submitted. */
  private boolean whole;

  ChunkSender(ScaleOut connection, int peer, int place) {
    this.connection = connection;
    this.peer = peer;
    this.place = place;
  }

  /** Address at which to fill the next chunk; 0 while there is no space. */
  public long space() {
    return whole ? 0 : space(0);
  }

  /**
   * Address at which to fill a chunk after {@code ahead} others that have not been submitted; 0
   * while there is no space.
   */
  public long space(int ahead) {
    long next = number + ahead + (whole ? 1 : 0);
    if (next - connection.credits(peer) >= ScaleOutLayout.SLOTS) {
      return 0;
    }
    return connection.outgoing() + connection.layout().chunk(place, next);
  }

  /** The next {@code bytes} bytes of the chunk, from byte {@code offset}, are in the space. */
  public void fromSpace(long offset, long bytes) {
    long here = connection.layout().chunk(place, number) + offset;
    fromRegion(connection.outgoingRegion(), here, offset, bytes);
  }

  /**
   * The next bytes of the chunk, from byte {@code offset}, are in {@code region} from {@code
   * where}; the caller keeps them unchanged until they are sent.
   */
  public void fromRegion(Region region, long where, long offset, long bytes) {
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

  /** Submits the first {@code bytes} bytes of the space as a chunk. */
  public void send(long bytes) {
    fromSpace(0, bytes);
    send();
  }

  /** Submits the pieces as a chunk. */
  public void send() {
    whole = true;
    push();
  }

  /**
   * Continues with a chunk that the wire did not accept; whether the wire has accepted all chunks.
   */
  public boolean push() {
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

  /** Number of sent chunks, for reports. */
  public long sent() {
    return number;
  }
}
