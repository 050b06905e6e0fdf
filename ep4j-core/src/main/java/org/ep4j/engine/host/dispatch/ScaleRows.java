package org.ep4j.engine.host.dispatch;

import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import org.ep4j.ScaleLayout;
import org.ep4j.Tensor;
import org.ep4j.engine.host.exec.WorkerTeam;
import org.ep4j.memory.NativeMemory;
import org.jspecify.annotations.Nullable;

/**
 * Transposes the scales that a caller gives by columns, {@link ScaleLayout#COLUMN_MAJOR}, into rows
 * in private memory, from which rows are sent. Workers take runs of tokens.
 */
final class ScaleRows implements WorkerTeam.Task {
  /** Number of tokens per step, so that whole lines of each column are read. */
  private static final long TILE = 64;

  /** The scales if they are on the heap, else null. */
  private @Nullable MemorySegment heap;

  private long from;
  private long to;
  private long tokens;
  private long columns;
  private long length;
  private boolean bytes;

  /**
   * Transposes the scales of one dispatch; returns when all workers are done.
   *
   * @param scales [columns, length], length at least {@code tokens}
   * @param to address of the result [tokens, columns]
   */
  void transpose(Tensor scales, long to, long tokens, WorkerTeam team) {
    heap = scales.nativeHost() ? null : scales.segment();
    from = scales.address();
    this.to = to;
    this.tokens = tokens;
    columns = scales.size(0);
    length = scales.size(1);
    bytes = scales.dtype().bits() == Byte.SIZE;
    team.run(this);
    heap = null;
  }

  @Override
  public void run(int worker, int workers) {
    long tiles = Math.ceilDiv(tokens, TILE);
    long end = Math.min(tokens, tiles * (worker + 1) / workers * TILE);
    for (long token = tiles * worker / workers * TILE; token < end; token += TILE) {
      tile(token, Math.min(end, token + TILE));
    }
  }

  private void tile(long first, long end) {
    for (long c = 0; c < columns; c++) {
      long column = c * length;
      for (long t = first; t < end; t++) {
        long target = t * columns + c;
        if (bytes) {
          NativeMemory.putByte(to + target, byteAt(column + t));
        } else {
          NativeMemory.putInt(to + target * Integer.BYTES, intAt((column + t) * Integer.BYTES));
        }
      }
    }
  }

  private byte byteAt(long offset) {
    MemorySegment segment = heap;
    return segment == null
        ? NativeMemory.getByte(from + offset)
        : segment.get(ValueLayout.JAVA_BYTE, offset);
  }

  private int intAt(long offset) {
    MemorySegment segment = heap;
    return segment == null
        ? NativeMemory.getInt(from + offset)
        : segment.get(ValueLayout.JAVA_INT_UNALIGNED, offset);
  }
}
