package org.ep4j.engine.host.internode;

import java.lang.foreign.Arena;
import org.ep4j.memory.NativeMemory;
import org.ep4j.wire.Region;
import org.ep4j.wire.Wire;
import org.ep4j.wire.WireMemory;
import org.jspecify.annotations.Nullable;

/**
 * Memory of the caller that the wire may read while an operation runs. The cache keeps
 * registrations across operations, because callers reuse memory. The wire reads the memory only
 * during an operation: a successful operation ends after all bytes are sent, a failed one calls
 * {@link #revoke}.
 */
public final class RegistrationCache implements AutoCloseable {
  /** Number of cached tensors before one is registered again. */
  private static final int REMEMBERED = 8;

  private final Wire wire;
  private final @Nullable Registration[] registrations = new Registration[REMEMBERED];
  private int oldest;

  /** Registered memory: closing the arena invalidates the wire's view of the memory. */
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

  /** The memory as a source of puts; null if the wire would have to pin it, or if it is empty. */
  public @Nullable Region acquire(long address, long bytes) {
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
   * Returns the memory to the caller although some bytes may not be sent: the lanes that would read
   * these bytes fail.
   */
  public void revoke() {
    for (int i = 0; i < REMEMBERED; i++) {
      end(i);
    }
  }

  /** Ends a registration once, also after an exception. */
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
