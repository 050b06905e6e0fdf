package org.ep4j.conformance.device;

import static org.assertj.core.api.Assertions.assertThat;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.time.Duration;
import java.util.concurrent.atomic.AtomicLong;
import org.ep4j.config.WireName;
import org.ep4j.engine.Devices;
import org.ep4j.group.Group;
import org.ep4j.group.ThreadRanks;
import org.ep4j.relocation.ExpertRelocation;
import org.ep4j.relocation.SlotMemory;
import org.ep4j.routing.ExpertPlacement;
import org.ep4j.routing.ReplicatedPlacement;
import org.ep4j.wire.WireConfig;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/**
 * Relocations between slots on devices and on the host. Memory of these devices is host memory, so
 * the tests write and read it where it lies; what a relocation copies is counted.
 */
class WeightsOnDevicesTest {
  private static final Duration TIMEOUT = Duration.ofSeconds(30);
  private static final int RANKS = 2;
  private static final int EXPERTS = 6;
  private static final int REPLICAS = 2;

  /** Two puts. */
  private static final int BYTES = (1 << 20) + 1000;

  /** Rank 0 has two slots on the host, and others on devices; rank 1 has all on its device. */
  private static final class Weights implements SlotMemory, AutoCloseable {
    private final int rank;
    private final MemorySegment[] slots;
    private final int[] device;

    Weights(Arena arena, ReplicatedPlacement placement, int rank) {
      this.rank = rank;
      slots = new MemorySegment[placement.placement().localExperts(rank)];
      device = new int[slots.length];
      for (int i = 0; i < slots.length; i++) {
        device[i] = rank == 0 && i < 2 ? -1 : (rank + i) % 2;
        slots[i] = device[i] < 0 ? arena.allocate(BYTES) : allocated(device[i]);
        int expert = placement.logicalOf(placement.placement().expertAt(rank, i));
        for (int at = 0; at < BYTES; at++) {
          slots[i].set(ValueLayout.JAVA_BYTE, at, pattern(expert, at));
        }
      }
    }

    @SuppressWarnings("restricted") // as a program wraps an address of another library
    private static MemorySegment allocated(int device) {
      long address = Devices.access(device).allocate(device, BYTES);
      return MemorySegment.ofAddress(address).reinterpret(BYTES);
    }

    @Override
    public MemorySegment of(int local) {
      return slots[local];
    }

    void check(ReplicatedPlacement placement) {
      for (int i = 0; i < slots.length; i++) {
        int expert = placement.logicalOf(placement.placement().expertAt(rank, i));
        for (int at = 0; at < BYTES; at++) {
          assertThat(slots[i].get(ValueLayout.JAVA_BYTE, at))
              .as("byte %d of slot %d of rank %d", at, i, rank)
              .isEqualTo(pattern(expert, at));
        }
      }
    }

    /** Slots on devices whose expert changes. */
    int changed(ReplicatedPlacement before, ReplicatedPlacement after) {
      int changed = 0;
      for (int i = 0; i < slots.length; i++) {
        int slot = before.placement().expertAt(rank, i);
        changed += device[i] >= 0 && before.logicalOf(slot) != after.logicalOf(slot) ? 1 : 0;
      }
      return changed;
    }

    private static byte pattern(int expert, int at) {
      return (byte) (17 * expert + 31 * at + (at >> 9));
    }

    @Override
    public void close() {
      for (int i = 0; i < slots.length; i++) {
        if (device[i] >= 0) {
          Devices.access(device[i]).free(device[i], slots[i].address());
        }
      }
    }
  }

  @ParameterizedTest
  @ValueSource(strings = {WireName.INPROC, WireName.TCP})
  void weightsMoveBetweenDevicesAndTheHost(String wire) {
    AtomicLong changed = new AtomicLong();
    long[] before = HostMemoryDevices.copiedBytes();
    ThreadRanks.run(RANKS, group -> changed.addAndGet(relocate(group, wire)));
    long[] after = HostMemoryDevices.copiedBytes();
    assertThat(after[0]).as("bytes read from devices").isGreaterThan(before[0]);
    assertThat(after[1] - before[1])
        .as("bytes written to devices")
        .isPositive()
        .isEqualTo(changed.get() * BYTES);
  }

  /** Returns how many slots on devices have received another expert. */
  private static int relocate(Group group, String wire) {
    ReplicatedPlacement first = balanced(0);
    int changed = 0;
    try (Arena arena = Arena.ofShared();
        Weights weights = new Weights(arena, first, group.rank())) {
      WireConfig.Builder config = WireConfig.builder().wire(wire);
      try (ExpertRelocation relocation =
          ExpertRelocation.open(group, first, weights, BYTES, config)) {
        for (int round = 1; round <= 3; round++) {
          ReplicatedPlacement next = balanced(round);
          changed += weights.changed(relocation.current(), next);
          assertThat(relocation.begin(next, TIMEOUT)).isPositive();
          relocation.advance();
          relocation.commit(TIMEOUT);
          weights.check(next);
        }
        // An unfinished one leaves the weights, and nothing open.
        relocation.begin(balanced(0), TIMEOUT);
        relocation.advance();
      }
      weights.check(balanced(3));
    }
    return changed;
  }

  private static ReplicatedPlacement balanced(int round) {
    long[] load = new long[EXPERTS];
    for (int e = 0; e < EXPERTS; e++) {
      load[e] = 1 + 100L / (1 + Math.floorMod(e - 2 * round, EXPERTS));
    }
    return ExpertPlacement.balance(load, RANKS, REPLICAS);
  }
}
