package org.ep4j.engine.host.internode;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.reflect.Proxy;
import java.util.ArrayList;
import java.util.List;
import org.ep4j.error.ErrorCode;
import org.ep4j.wire.Region;
import org.ep4j.wire.Wire;
import org.ep4j.wire.WireException;
import org.ep4j.wire.WireMemory;
import org.junit.jupiter.api.Test;

class RegistrationCacheTest {
  private static final int REMEMBERED = 8;
  private static final long BYTES = 64;

  /** All regions ever registered, and whether the wire accepts more. */
  private final List<LocalRegion> regions = new ArrayList<>();

  private final List<MemorySegment> offered = new ArrayList<>();
  private boolean refuses;

  private final RegistrationCache rows = new RegistrationCache(wire());

  @Test
  void reusedMemoryIsRegisteredOnce() {
    try (Arena arena = Arena.ofConfined()) {
      long address = arena.allocate(2 * BYTES).address();

      Region region = rows.acquire(address, BYTES);
      assertThat(rows.acquire(address, BYTES)).isSameAs(region);
      assertThat(rows.acquire(address, 2 * BYTES)).isNotSameAs(region);
      assertThat(rows.acquire(address, 0)).isNull();
      assertThat(regions).hasSize(2);
    }
  }

  @Test
  void theOldestIsEvicted() {
    try (Arena arena = Arena.ofConfined()) {
      long address = arena.allocate((REMEMBERED + 1) * BYTES).address();
      for (int i = 0; i <= REMEMBERED; i++) {
        rows.acquire(address + i * BYTES, BYTES);
      }
      assertThat(regions).filteredOn(region -> region.closed).containsExactly(regions.getFirst());

      rows.revoke();
      assertThat(regions).allMatch(region -> region.closed && !region.readable());
    }
  }

  @Test
  void whatTheWireRefusesIsNotRegistered() {
    try (Arena arena = Arena.ofConfined()) {
      long address = arena.allocate((REMEMBERED + 1) * BYTES).address();
      for (int i = 0; i < REMEMBERED; i++) {
        rows.acquire(address + i * BYTES, BYTES);
      }
      refuses = true;
      assertThatThrownBy(() -> rows.acquire(address + REMEMBERED * BYTES, BYTES))
          .isInstanceOf(WireException.class);
      assertThat(offered.getLast().scope().isAlive()).isFalse();

      // The evicted region is closed, and is not closed a second time.
      refuses = false;
      rows.acquire(address + REMEMBERED * BYTES, BYTES);
      rows.close();
      assertThat(regions).hasSize(REMEMBERED + 1).allMatch(region -> region.closed);
    }
  }

  private Wire wire() {
    return (Wire)
        Proxy.newProxyInstance(
            Wire.class.getClassLoader(),
            new Class<?>[] {Wire.class},
            (proxy, method, arguments) ->
                switch (method.getName()) {
                  case "registersFreely" -> true;
                  case "register" -> register((WireMemory) arguments[0]);
                  default -> throw new UnsupportedOperationException(method.getName());
                });
  }

  private Region register(WireMemory memory) {
    LocalRegion region = new LocalRegion(memory);
    offered.add(region.segment());
    if (refuses) {
      throw new WireException(ErrorCode.WIRE_FAILED, "refused");
    }
    regions.add(region);
    return region;
  }

  /** A region of this rank only. */
  private static final class LocalRegion implements Region {
    private final WireMemory memory;
    private boolean closed;

    LocalRegion(WireMemory memory) {
      this.memory = memory;
    }

    boolean readable() {
      return segment().scope().isAlive();
    }

    @Override
    public long bytes() {
      return memory.bytes();
    }

    @Override
    public long bytes(int rank) {
      throw new IllegalStateException("registered on this rank only");
    }

    @Override
    public boolean exposed() {
      return false;
    }

    @Override
    public WireMemory memory() {
      return memory;
    }

    @Override
    public void close() {
      closed = true;
    }
  }
}
