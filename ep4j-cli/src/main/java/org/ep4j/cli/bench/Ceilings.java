package org.ep4j.cli.bench;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.concurrent.atomic.LongAdder;
import org.ep4j.ExpertBuffer;
import org.ep4j.cli.launch.Agreement;
import org.ep4j.memory.PageArena;

/**
 * What the memory of this machine allows, measured in the same run, with all ranks at once and as
 * many threads as an operation may use: copying a dispatch's bytes, and reading a combine's,
 * without any communication. The yardstick is the best of what was tried.
 */
final class Ceilings {
  private static final int WARMUP = 1;
  private static final int WARMUP_CALLS = 3000;
  private static final long WARMUP_BYTES = 16 << 10;
  private static final int LONG_REPEATS = 5;
  private static final int SHORT_REPEATS = 100;
  private static final long SHORT_BYTES = 8L << 20;

  private final ExpertBuffer buffer;
  private final Agreement agreement;

  /** What was read goes here, or the JVM would not read it. */
  private final LongAdder sink = new LongAdder();

  Ceilings(ExpertBuffer buffer, Agreement agreement) {
    this.buffer = buffer;
    this.agreement = agreement;
  }

  /**
   * Microseconds in which every rank copies the bytes of a dispatch: row by row from the rows it
   * sends, or all at once, whichever is faster.
   *
   * @param rows what is copied row by row
   * @param rowBytes bytes of a row
   * @param copies which rows, and to where
   * @param bytes bytes that are copied at once
   */
  double copyMicros(MemorySegment rows, long rowBytes, RowCopies copies, long bytes) {
    try (Arena arena = new PageArena();
        Crew crew = new Crew(buffer.numSms())) {
      long room = Math.max(bytes, copies.count() * rowBytes);
      MemorySegment target = touched(arena, room);
      Crew.Part byRow =
          (from, to) -> {
            for (int i = (int) from; i < to; i++) {
              long at = copies.source()[i] * rowBytes;
              MemorySegment.copy(rows, at, target, copies.target()[i] * rowBytes, rowBytes);
            }
          };
      double rowMicros = measure(bytes, () -> crew.run(copies.count(), byRow));
      MemorySegment source = touched(arena, room);
      Crew.Part inBulk = (from, to) -> MemorySegment.copy(source, from, target, from, to - from);
      return Math.min(rowMicros, measure(bytes, () -> crew.run(bytes, inBulk)));
    }
  }

  /** Microseconds in which every rank reads {@code bytes} bytes. */
  double readMicros(long bytes) {
    try (Arena arena = new PageArena();
        Crew crew = new Crew(buffer.numSms())) {
      MemorySegment source = touched(arena, bytes);
      MemoryReader reader = MemoryReader.best();
      warmUp(reader, source);
      Crew.Part part =
          (from, to) ->
              sink.add(reader.sum(source, from * MemoryReader.BLOCK, to * MemoryReader.BLOCK));
      return measure(bytes, () -> crew.run(bytes / MemoryReader.BLOCK, part));
    }
  }

  /** Many short calls: few long ones would be timed before the JVM has compiled the loop. */
  private void warmUp(MemoryReader reader, MemorySegment source) {
    long part = Math.min(source.byteSize(), WARMUP_BYTES) / MemoryReader.BLOCK * MemoryReader.BLOCK;
    for (int i = 0; i < WARMUP_CALLS; i++) {
      sink.add(reader.sum(source, 0, part));
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

  /** Memory with bytes of its own: untouched pages would all be the kernel's one zero page. */
  private static MemorySegment touched(Arena arena, long bytes) {
    return arena.allocate(Math.max(64, bytes), 4096).fill((byte) 1);
  }
}
