package org.ep4j.conformance.wire;

import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.nio.ByteOrder;
import java.time.Duration;
import java.util.SplittableRandom;
import org.ep4j.group.Group;
import org.ep4j.wire.Lane;
import org.ep4j.wire.Region;
import org.ep4j.wire.Wire;
import org.ep4j.wire.WireConfig;
import org.ep4j.wire.WireWait;
import org.ep4j.wire.Wires;

/**
 * State of a check on one rank.
 *
 * @param group the ranks
 * @param setup the wire under test and its options
 * @param shared draws values that all ranks must agree on
 */
record WireContext(Group group, WireSetup setup, SplittableRandom shared) {
  /** Timeout of slow steps; {@code -Dep4j.patience} sets the seconds for slow devices. */
  static final Duration TIMEOUT = Duration.ofSeconds(Integer.getInteger("ep4j.patience", 30));

  private static final ValueLayout.OfLong WORD =
      ValueLayout.JAVA_LONG_UNALIGNED.withOrder(ByteOrder.LITTLE_ENDIAN);

  int rank() {
    return group.rank();
  }

  int size() {
    return group.size();
  }

  /** Opens the wire under test with the defaults. */
  Wire open() {
    return open(WireConfig.builder());
  }

  /** Opens the wire under test; collective. */
  Wire open(WireConfig.Builder config) {
    Wire wire =
        Wires.open(group, setup.applied(config.wire(setup.wire()).timeout(TIMEOUT)).build());
    return setup.faults() ? new FaultyWire(wire, FaultPlan.legal(setup.seed())) : wire;
  }

  WireWait waiting(Wire wire, int progressContext) {
    return new WireWait(wire, progressContext, TIMEOUT);
  }

  Region region(Wire wire, long bytes) {
    return wire.allocate(bytes, TIMEOUT);
  }

  void barrier() {
    group.barrier(TIMEOUT);
  }

  /** A lane by any number. */
  static Lane lane(Wire wire, int peer, int number) {
    return wire.lane(peer, Math.floorMod(number, wire.config().lanes()));
  }

  /** Fills bytes with a pattern that identifies writer, round and offset. */
  static void fill(MemorySegment segment, long offset, long bytes, long tag) {
    long words = bytes / Long.BYTES;
    for (long i = 0; i < words; i++) {
      segment.set(WORD, offset + Long.BYTES * i, word(tag, i));
    }
    for (long i = Long.BYTES * words; i < bytes; i++) {
      segment.set(ValueLayout.JAVA_BYTE, offset + i, pattern(tag, i));
    }
  }

  /** Compares with the pattern of {@link #fill}; throws at the first difference. */
  static void verify(MemorySegment segment, long offset, long bytes, long tag, String what) {
    verifyFrom(segment, offset, 0, bytes, tag, what);
  }

  /** The same for a part of the pattern that begins at {@code from}. */
  static void verifyFrom(
      MemorySegment segment, long offset, long from, long bytes, long tag, String what) {
    long i = 0;
    while (i < bytes) {
      if (isWord(segment, offset + i, from + i, bytes - i, tag)) {
        i += Long.BYTES;
        continue;
      }
      byte seen = segment.get(ValueLayout.JAVA_BYTE, offset + i);
      byte expected = pattern(tag, from + i);
      if (seen != expected) {
        throw new AssertionError(
            "%s: byte %d of %d is %d, not %d".formatted(what, i, bytes, seen, expected));
      }
      i++;
    }
  }

  /** Whether a word of the pattern begins at {@code from}, with all its bytes at the offset. */
  private static boolean isWord(
      MemorySegment segment, long offset, long from, long bytes, long tag) {
    return from % Long.BYTES == 0
        && bytes >= Long.BYTES
        && segment.get(WORD, offset) == word(tag, from / Long.BYTES);
  }

  private static byte pattern(long tag, long i) {
    return (byte) (word(tag, i / Long.BYTES) >>> (Byte.SIZE * (i % Long.BYTES)));
  }

  /** Eight bytes of the pattern. No byte is 0, the value of untouched memory. */
  private static long word(long tag, long i) {
    return (tag + 1) * 0x9E37_79B9_7F4A_7C15L + i * 0xBF58_476D_1CE4_E5B9L | 0x0101_0101_0101_0101L;
  }

  static void check(boolean holds, String what) {
    if (!holds) {
      throw new AssertionError(what);
    }
  }
}
