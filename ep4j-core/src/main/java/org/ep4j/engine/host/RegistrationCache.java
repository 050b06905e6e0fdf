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
 * that succeeds ends after all bytes have left, one that fails calls {@link #revoke}.
 */
final class RegistrationCache implements AutoCloseable {
  /** Tensors that take turns before anything is registered anew. */
  private static final int REMEMBERED = 8;

  private final Wire wire;
  private final @Nullable Registration[] registrations = new Registration[REMEMBERED];
  private int oldest;

  /** Memory that is registered: closing the arena makes the wire's view of it useless. */
  private record Registration(long address, long bytes, Arena arena, Region region) {
    static Registration of(Wire wire, long address, long bytes) {
      Arena arena = Arena.ofShared();
      boolean done = false;
      try {
        WireMemory rows = WireMemory.host(NativeMemory.view(address, bytes, arena));
        Registration registration = new Registration(address, bytes, arena, wire.register(rows));
        done = true;
        return registration;
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

  RegistrationCache(Wire wire) {
    this.wire = wire;
  }

  /** The memory as a source of puts; null if the wire would have to pin it, or there is none. */
  @Nullable Region acquire(long address, long bytes) {
    if (bytes == 0 || !wire.registersFreely()) {
      return null;
    }
    for (Registration registration : registrations) {
      if (registration != null && registration.address == address && registration.bytes == bytes) {
        return registration.region;
      }
    }
    end(oldest);
    Registration registration = Registration.of(wire, address, bytes);
    registrations[oldest] = registration;
    oldest = (oldest + 1) % REMEMBERED;
    return registration.region;
  }

  /**
   * The caller gets its memory back though some of it may not have left: the lanes that it was to
   * leave on end when they come to it.
   */
  void revoke() {
    for (int i = 0; i < REMEMBERED; i++) {
      end(i);
    }
  }

  /** Ends a loan once, whatever comes of it. */
  private void end(int place) {
    Registration registration = registrations[place];
    if (registration != null) {
      registrations[place] = null;
      registration.end();
    }
  }

  @Override
  public void close() {
    revoke();
  }
}
