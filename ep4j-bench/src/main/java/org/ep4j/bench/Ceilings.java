package org.ep4j.bench;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.concurrent.atomic.LongAdder;
import org.ep4j.ExpertBuffer;
import org.ep4j.memory.PageArena;

/**
 * The memory limits of this machine, measured in the same run on all ranks at once with the threads
 * of an operation: copying the bytes of a dispatch and reading those of a combine, without
 * communication. The ceiling is the best of several methods.
 */
public final class Ceilings {
  private static final int WARMUP = 1;
  private static final int WARMUP_CALLS = 6000;
  private static final int LONG_REPEATS = 5;
  private static final int SHORT_REPEATS = 100;
  private static final long SHORT_BYTES = 8L << 20;

  /**
   * Copies and reads repeat over this many bytes: more than the cache share of a core. First touch
   * of more memory may take longer than the whole measurement.
   */
  private static final long MAX_SPACE = 64L << 20;

  private final ExpertBuffer buffer;
  private final CommandAgreement agreement;

  /** Consumes the sums, so that the JIT compiler keeps the reads. */
  private final LongAdder sink = new LongAdder();

  public Ceilings(ExpertBuffer buffer, CommandAgreement agreement) {
    this.buffer = buffer;
    this.agreement = agreement;
  }

  /**
   * Microseconds in which every rank copies the bytes of a dispatch: row by row from its input
   * rows, or in bulk, whichever is faster.
   *
   * @param rows source of the row copies
   * @param rowBytes bytes of a row
   * @param copies rows and their targets
   * @param bytes bytes of the bulk copy
   */
  public double copyMicros(MemorySegment rows, long rowBytes, RowCopies copies, long bytes) {
    try (Arena arena = new PageArena();
        ThreadTeam team = new ThreadTeam(buffer.parallelism())) {
      long spaceRows = Math.clamp(MAX_SPACE / rowBytes, 1, Math.max(1, copies.count()));
      MemorySegment target = touched(arena, spaceRows * rowBytes);
      ThreadTeam.Part byRow =
          (from, to) -> {
            for (int i = (int) from; i < to; i++) {
              long at = copies.source()[i] * rowBytes;
              MemorySegment.copy(
                  rows, at, target, copies.target()[i] % spaceRows * rowBytes, rowBytes);
            }
          };
      double rowMicros = measure(bytes, () -> team.run(copies.count(), byRow));
      MemorySegment source = touched(arena, target.byteSize());
      ThreadTeam.Part inBulk = (from, to) -> copyAround(source, target, from, to);
      return Math.min(rowMicros, measure(bytes, () -> team.run(bytes, inBulk)));
    }
  }

  /** Microseconds in which every rank reads {@code bytes} bytes. */
  public double readMicros(long bytes) {
    try (Arena arena = new PageArena();
        ThreadTeam team = new ThreadTeam(buffer.parallelism())) {
      MemorySegment source = touched(arena, Math.min(bytes, MAX_SPACE));
      MemoryReader reader = MemoryReader.best();
      long space = Math.max(1, Math.min(bytes, MAX_SPACE) / MemoryReader.BLOCK);
      ThreadTeam.Part part =
          (from, to) -> {
            for (long at = from; at < to; ) {
              long first = at % space;
              long count = Math.min(to - at, space - first);
              sink.add(
                  reader.sum(
                      source, first * MemoryReader.BLOCK, (first + count) * MemoryReader.BLOCK));
              at += count;
            }
          };
      return measure(bytes, () -> team.run(bytes / MemoryReader.BLOCK, part));
    }
  }

  /** Copies the range {@code from} to {@code to}, modulo the size of the memory. */
  private static void copyAround(MemorySegment source, MemorySegment target, long from, long to) {
    long space = target.byteSize();
    for (long at = from; at < to; ) {
      long first = at % space;
      long count = Math.min(to - at, space - first);
      MemorySegment.copy(source, first, target, first, count);
      at += count;
    }
  }

  /** Warms up the reader for the JIT compiler with many short calls. */
  public void warmUp() {
    MemoryReader reader = MemoryReader.best();
    try (Arena arena = Arena.ofConfined()) {
      MemorySegment source = touched(arena, MemoryReader.BLOCK);
      for (int i = 0; i < WARMUP_CALLS; i++) {
        sink.add(reader.sum(source, 0, MemoryReader.BLOCK));
      }
    }
  }

  private double measure(long bytes, Runnable work) {
    int repeats = bytes < SHORT_BYTES ? SHORT_REPEATS : LONG_REPEATS;
    int warmup = bytes < SHORT_BYTES ? SHORT_REPEATS : WARMUP;
    long[] nanos = new long[repeats];
    for (int i = -warmup; i < repeats; i++) {
      buffer.barrier();
      long start = System.nanoTime();
      work.run();
      if (i >= 0) {
        nanos[i] = System.nanoTime() - start;
      }
    }
    return Timings.longestOf(agreement.numbers(nanos)).median();
  }

  /** Memory with written pages: untouched pages would all map to the zero page of the kernel. */
  private static MemorySegment touched(Arena arena, long bytes) {
    return arena.allocate(Math.max(64, bytes), 4096).fill((byte) 1);
  }
}
