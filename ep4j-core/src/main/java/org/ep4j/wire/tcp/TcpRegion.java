package org.ep4j.wire.tcp;

import java.lang.foreign.MemorySegment;
import java.nio.ByteBuffer;
import java.util.Objects;
import org.ep4j.memory.PageArena;
import org.ep4j.wire.Region;
import org.ep4j.wire.WireMemory;
import org.ep4j.wire.support.GroupRegion;
import org.ep4j.wire.support.WireArguments;
import org.jspecify.annotations.Nullable;

/**
 * A region of this rank, with views of it for channels, which accept only buffers of less than 2
 * GiB. Each connection has its own view per direction and GiB, made on first use.
 */
final class TcpRegion extends GroupRegion {
  /** Id of a region that only this rank knows. */
  static final int LOCAL = -1;

  private static final int WINDOW_BITS = 30;
  private static final long WINDOW = 1L << WINDOW_BITS;

  private final TcpWire wire;
  private final int id;
  private final MemorySegment segment;
  private final @Nullable PageArena owned;
  // By user of the view, see viewAt(), then by window; one progress context owns each row.
  private final @Nullable ByteBuffer[][] views;

  TcpRegion(TcpWire wire, int id, WireMemory memory, @Nullable PageArena owned, int users) {
    super(wire, memory, id != LOCAL);
    this.wire = wire;
    this.id = id;
    this.segment = Objects.requireNonNull(memory.segment(), "host memory");
    this.owned = owned;
    this.views = new ByteBuffer[users][];
  }

  /** Returns the region as one of {@code wire}, and rejects a closed or foreign one. */
  static TcpRegion of(Region region, TcpWire wire) {
    if (region instanceof TcpRegion tcp && tcp.isOf(wire)) {
      return tcp;
    }
    throw WireArguments.foreign(region);
  }

  int id() {
    return id;
  }

  /**
   * A buffer over some bytes, limited by the end of the window.
   *
   * @param user number of a connection and direction, which uses one view at a time
   */
  ByteBuffer viewAt(int user, long offset, int bytes) {
    int window = (int) (offset >>> WINDOW_BITS);
    @Nullable ByteBuffer[] mine = views[user];
    if (mine == null) {
      mine = new ByteBuffer[(int) (bytes() + WINDOW - 1 >>> WINDOW_BITS)];
      views[user] = mine;
    }
    ByteBuffer view = mine[window];
    if (view == null) {
      long from = (long) window << WINDOW_BITS;
      view = segment.asSlice(from, Math.min(WINDOW, bytes() - from)).asByteBuffer();
      mine[window] = view;
    }
    int at = (int) (offset & WINDOW - 1);
    view.limit(Math.min(view.capacity(), at + bytes)).position(at);
    return view;
  }

  MemorySegment own() {
    return segment;
  }

  @Override
  public synchronized void close() {
    if (shut()) {
      wire.forget(this);
      if (owned != null) {
        owned.close();
      }
    }
  }
}
