package org.ep4j.engine.host;

import java.lang.foreign.Arena;
import org.ep4j.memory.NativeMemory;
import org.ep4j.wire.Region;
import org.ep4j.wire.Wire;
import org.ep4j.wire.WireMemory;
import org.jspecify.annotations.Nullable;

/**
 * Memory of the caller that the wire may read while an operation runs. Remembered from operation to
 * operation, as callers come again with the same memory; read only while one runs: an operation
 * that succeeds ends after all bytes have left, one that fails calls {@link #withdraw}.
 */
final class BorrowedRows implements AutoCloseable {
  /** Tensors that take turns before anything is registered anew. */
  private static final int REMEMBERED = 8;

  private final Wire wire;
  private final @Nullable Loan[] loans = new Loan[REMEMBERED];
  private int oldest;

  /** Memory that is registered: closing the arena makes the wire's view of it useless. */
  private record Loan(long address, long bytes, Arena arena, Region region) {
    static Loan of(Wire wire, long address, long bytes) {
      Arena arena = Arena.ofShared();
      boolean done = false;
      try {
        WireMemory rows = WireMemory.host(NativeMemory.view(address, bytes, arena));
        Loan loan = new Loan(address, bytes, arena, wire.register(rows));
        done = true;
        return loan;
      } finally {
        if (!done) {
          arena.close();
        }
      }
    }

    void end() {
      try {
        arena.close();
      } finally {
        region.close();
      }
    }
  }

  BorrowedRows(Wire wire) {
    this.wire = wire;
  }

  /** The memory as a source of puts; null if the wire would have to pin it, or there is none. */
  @Nullable Region borrow(long address, long bytes) {
    if (bytes == 0 || !wire.registersFreely()) {
      return null;
    }
    for (Loan loan : loans) {
      if (loan != null && loan.address == address && loan.bytes == bytes) {
        return loan.region;
      }
    }
    end(oldest);
    Loan loan = Loan.of(wire, address, bytes);
    loans[oldest] = loan;
    oldest = (oldest + 1) % REMEMBERED;
    return loan.region;
  }

  /**
   * The caller gets its memory back though some of it may not have left: the lanes that it was to
   * leave on end when they come to it.
   */
  void withdraw() {
    for (int i = 0; i < REMEMBERED; i++) {
      end(i);
    }
  }

  /** Ends a loan once, whatever comes of it. */
  private void end(int place) {
    Loan loan = loans[place];
    if (loan != null) {
      loans[place] = null;
      loan.end();
    }
  }

  @Override
  public void close() {
    withdraw();
  }
}
