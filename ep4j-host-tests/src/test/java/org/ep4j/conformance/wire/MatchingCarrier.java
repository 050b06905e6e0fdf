package org.ep4j.conformance.wire;

import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.Objects;
import org.ep4j.wire.tcp.Carrier;
import org.jspecify.annotations.Nullable;

/**
 * A carrier between threads that is as strict as a library of matching calls: a batch moves once
 * both sides have begun it; a send without a receiver is a defect of the protocol, and so are
 * different sizes.
 */
final class MatchingCarrier implements Carrier {
  static final int SLOTS = 4;

  private static final int SLOT_BYTES = 100_000;

  /** One direction, shared by both ends; guarded by its own lock. */
  static final class Direction {
    private final int[] slots = new int[SLOTS];
    private final int[] sizes = new int[SLOTS];
    private long received;
    private long sent;
    private @Nullable MemorySegment target;
    private boolean closed;
    private int looks;

    private synchronized void close() {
      closed = true;
    }
  }

  private final Direction out;
  private final Direction in;
  private final Arena arena;
  private final MemorySegment[] outgoing = new MemorySegment[SLOTS];
  private final MemorySegment[] incoming = new MemorySegment[SLOTS];

  MatchingCarrier(Direction out, Direction in, Arena arena) {
    this.out = out;
    this.in = in;
    this.arena = arena;
    MemorySegment memory = arena.allocate(2L * SLOTS * SLOT_BYTES, 64);
    for (int i = 0; i < SLOTS; i++) {
      outgoing[i] = memory.asSlice((long) i * SLOT_BYTES, SLOT_BYTES);
      incoming[i] = memory.asSlice((long) (SLOTS + i) * SLOT_BYTES, SLOT_BYTES);
    }
    synchronized (in) {
      in.target = memory.asSlice((long) SLOTS * SLOT_BYTES);
    }
  }

  @Override
  public int slots() {
    return SLOTS;
  }

  @Override
  public MemorySegment outgoing(int slot) {
    return outgoing[slot];
  }

  @Override
  public MemorySegment incoming(int slot) {
    return incoming[slot];
  }

  @Override
  public boolean receive(int slot, int bytes) throws IOException {
    synchronized (in) {
      requireOpen(in);
      // Occasionally not at once, as if a call were still in progress.
      if (++in.looks % 3 == 0) {
        return false;
      }
      int at = (int) (in.received % SLOTS);
      in.slots[at] = slot;
      in.sizes[at] = bytes;
      in.received++;
      return true;
    }
  }

  @Override
  public boolean send(int slot, int bytes) throws IOException {
    synchronized (out) {
      requireOpen(out);
      int at = (int) (out.sent % SLOTS);
      if (out.sent == out.received || out.sizes[at] != bytes) {
        throw new AssertionError("send " + out.sent + " of " + bytes + " bytes has no receive");
      }
      long to = (long) out.slots[at] * SLOT_BYTES;
      MemorySegment.copy(outgoing[slot], 0, Objects.requireNonNull(out.target), to, bytes);
      out.sent++;
      return true;
    }
  }

  private static void requireOpen(Direction direction) throws IOException {
    if (direction.closed) {
      throw new IOException("the other end has aborted");
    }
  }

  @Override
  public long sent() {
    synchronized (out) {
      return out.sent;
    }
  }

  @Override
  public long received() {
    synchronized (in) {
      return in.sent;
    }
  }

  @Override
  public void close() {
    out.close();
    in.close();
    if (arena.scope().isAlive()) {
      synchronized (in) {
        arena.close();
      }
    }
  }
}
