package org.ep4j.memory;

import static org.assertj.core.api.Assertions.assertThat;

import com.sun.management.ThreadMXBean;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.lang.management.ManagementFactory;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.List;
import java.util.Random;
import org.ep4j.engine.host.kernel.ForkedJvm;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Compares cache-bypassing copies with plain ones, with and without the native function. */
class NonTemporalCopyTest {
  private static final int LONGEST = 3 * NonTemporalCopy.STEP + 2;
  private static final int MARGIN = 64;
  private static final byte POISON = 0x5A;
  private static final ThreadMXBean THREADS = (ThreadMXBean) ManagementFactory.getThreadMXBean();

  private final Random random = seeded();

  private static Random seeded() {
    long seed = Long.getLong("ep4j.seed", 1);
    System.out.println("NonTemporalCopyTest: seed " + seed);
    return new Random(seed);
  }

  /** Memory for one source and some places, each between margins. */
  private final class Copies implements AutoCloseable {
    private final Arena arena = Arena.ofConfined();
    private final MemorySegment source;
    private final MemorySegment[] around;

    Copies(int length, int places) {
      source = arena.allocate(length + 64L, 64);
      around = new MemorySegment[places];
      for (int i = 0; i < places; i++) {
        around[i] = arena.allocate(length + 64L + 2 * MARGIN, 64);
      }
    }

    /** Copies and compares every byte of source, places and margins. */
    void check(NonTemporalCopy stream, int fetches, int length, int sourceOffset, int[] offsets) {
      byte[] expected = new byte[length];
      random.nextBytes(expected);
      source.asSlice(sourceOffset, length).copyFrom(MemorySegment.ofArray(expected));
      for (int i = 0; i < fetches; i++) {
        stream.places[i] = i % 2 == 0 ? source.address() : random.nextLong() >>> 20;
      }
      for (int i = 0; i < offsets.length; i++) {
        around[i].fill(POISON);
        stream.places[fetches + i] = around[i].address() + MARGIN + offsets[i];
      }
      long[] before = stream.places.clone();
      stream.copy(source.address() + sourceOffset, length, fetches, offsets.length);
      NonTemporalCopy.fence();
      for (int i = 0; i < offsets.length; i++) {
        byte[] all = new byte[(int) around[i].byteSize()];
        Arrays.fill(all, POISON);
        System.arraycopy(expected, 0, all, MARGIN + offsets[i], length);
        assertThat(around[i].mismatch(MemorySegment.ofArray(all)))
            .as("%d bytes from +%d to %s, place %d", length, sourceOffset, ints(offsets), i)
            .isEqualTo(-1);
      }
      for (int i = 0; i < fetches + offsets.length; i++) {
        assertThat(stream.places[i]).as("place %d advances", i).isEqualTo(before[i] + length);
      }
    }

    private String ints(int[] offsets) {
      return Arrays.toString(offsets);
    }

    @Override
    public void close() {
      arena.close();
    }
  }

  @ParameterizedTest
  @ValueSource(booleans = {true, false})
  void everyLengthFromAndToAnywhereIsCopiedExactly(boolean streaming) {
    NonTemporalCopy stream = new NonTemporalCopy(2, streaming && NonTemporalCopy.available());
    try (Copies copies = new Copies(LONGEST, 1)) {
      for (int length = 0; length <= LONGEST; length++) {
        for (int sourceOffset = 0; sourceOffset <= 16; sourceOffset += 1 + sourceOffset % 3) {
          for (int offset : new int[] {0, 1, 2, 4, 8, 15, 16, 17, 32, 48, 63}) {
            copies.check(stream, 1, length, sourceOffset, new int[] {offset});
          }
        }
      }
    }
  }

  @ParameterizedTest
  @ValueSource(booleans = {true, false})
  void aRowGoesToManyPlacesAtOnce(boolean streaming) {
    NonTemporalCopy stream = new NonTemporalCopy(80, streaming && NonTemporalCopy.available());
    int[] lengths = {1, 16, 127, 128, 129, 256, 1008, 7168, 14336, 65536, 65552, 200_017};
    for (int length : lengths) {
      for (int places : new int[] {0, 1, 2, 3, 7, 9, 64}) {
        try (Copies copies = new Copies(length, places)) {
          int[] aligned = random.ints(places, 0, 4).map(i -> 16 * i).toArray();
          copies.check(stream, random.nextInt(11), length, random.nextInt(17), aligned);
          int[] any = random.ints(places, 0, 64).toArray();
          copies.check(stream, random.nextInt(11), length, random.nextInt(17), any);
        }
      }
    }
  }

  @Test
  void aWarmCopyAllocatesNothing() {
    NonTemporalCopy stream = new NonTemporalCopy(4);
    try (Arena arena = Arena.ofConfined()) {
      MemorySegment memory = arena.allocate(3L * LONGEST, 64);
      long allocated = Long.MAX_VALUE;
      for (int window = 0; window < 200 && allocated != 0; window++) {
        long before = THREADS.getCurrentThreadAllocatedBytes();
        for (int i = 0; i < 500; i++) {
          Arrays.fill(stream.places, memory.address());
          stream.places[3] = memory.address() + 2 * LONGEST & -16;
          stream.copy(memory.address(), LONGEST - 100, 3, 1);
          NonTemporalCopy.fence();
        }
        allocated = THREADS.getCurrentThreadAllocatedBytes() - before;
      }
      assertThat(allocated).isZero();
    }
  }

  @Test
  void thePropertyDisablesItWithOneLineAndTheSameBytes() throws Exception {
    List<String> lines =
        ForkedJvm.run(
            Program.class, List.of("-D" + NonTemporalCopy.PROPERTY + "=false"), List.of());
    assertThat(lines).contains("available false", "copied 42 42 0", "executable pages 0");
    assertThat(lines.stream().filter(line -> line.contains("Large copies use the cache")))
        .hasSize(1)
        .allSatisfy(line -> assertThat(line).endsWith("ep4j.host.streaming is false"));
  }

  @Test
  void anAmd64ProcessorHasIt() throws Exception {
    List<String> lines = ForkedJvm.run(Program.class, List.of(), List.of());
    boolean expected = System.getProperty("os.arch").equals("amd64");
    assertThat(lines)
        .contains(
            "available " + expected, "copied 42 42 0", "executable pages " + (expected ? 1 : 0));
  }

  /** A program that copies one row to two places. */
  static final class Program {
    private Program() {}

    public static void main(String[] args) throws IOException {
      System.out.println("available " + NonTemporalCopy.available());
      // The JVM's own code is in memory that is also writable, and that of libraries in files.
      System.out.println(
          "executable pages "
              + Files.readAllLines(Path.of("/proc/self/maps")).stream()
                  .filter(line -> line.matches("\\S+ r-xp 00000000 00:00 0 *"))
                  .count());
      try (Arena arena = Arena.ofConfined()) {
        MemorySegment memory = arena.allocate(4096, 64);
        memory.asSlice(0, 1024).fill((byte) 42);
        NonTemporalCopy stream = new NonTemporalCopy(2);
        stream.places[0] = memory.address() + 1024;
        stream.places[1] = memory.address() + 2048;
        stream.copy(memory.address(), 1000, 0, 2);
        NonTemporalCopy.fence();
        System.out.printf(
            "copied %d %d %d%n",
            memory.get(ValueLayout.JAVA_BYTE, 2023),
            memory.get(ValueLayout.JAVA_BYTE, 3047),
            memory.get(ValueLayout.JAVA_BYTE, 3048));
      }
    }
  }
}
