package org.ep4j.engine.host.dispatch;

import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import org.ep4j.engine.host.exec.WorkerTeam;
import org.ep4j.memory.NativeMemory;
import org.ep4j.tensor.DType;
import org.ep4j.tensor.ScaleLayout;
import org.ep4j.tensor.Tensor;
import org.jspecify.annotations.Nullable;

/**
 * Transposes scales between rows, in which they travel, and {@link ScaleLayout#COLUMN_MAJOR}.
 * Workers take runs of rows. The result is private memory of this rank.
 */
public final class ScaleTranspose implements WorkerTeam.Task {
  /** Number of rows per step, so that a worker reads or writes whole lines of each column. */
  private static final long TILE = 64;

  /** The scales if they are on the heap, else null. */
  private @Nullable MemorySegment heap;

  private long from;
  private long to;
  private long rows;
  private long columns;
  private boolean bytes;

  // Distances of neighbours, in elements.
  private long fromRow;
  private long fromColumn;
  private long toRow;
  private long toColumn;

  /**
   * Transposes the scales that a caller gives; returns when all workers are done.
   *
   * @param scales [columns, length], length at least {@code tokens}; on the heap or native
   * @param result address of [tokens, columns]
   */
  void toRows(Tensor scales, long result, long tokens, WorkerTeam team) {
    heap = scales.nativeHost() ? null : scales.segment();
    rows = tokens;
    columns = scales.size(0);
    fromRow = 1;
    fromColumn = scales.size(1);
    toRow = columns;
    toColumn = 1;
    run(scales.address(), result, scales.dtype(), team);
    heap = null;
  }

  /**
   * Transposes received scales; returns when all workers are done.
   *
   * @param scales address of the scales [rows, columns]
   * @param result address of [columns, {@link ScaleLayout#columnLength} of {@code limit}]
   */
  public void toColumns(
      long scales,
      long result,
      DType dtype,
      long received,
      long limit,
      long scalesPerRow,
      WorkerTeam team) {
    rows = received;
    columns = scalesPerRow;
    fromRow = columns;
    fromColumn = 1;
    toRow = 1;
    toColumn = ScaleLayout.columnLength(dtype, limit);
    run(scales, result, dtype, team);
  }

  private void run(long scales, long result, DType dtype, WorkerTeam team) {
    from = scales;
    to = result;
    bytes = dtype.bits() == Byte.SIZE;
    team.run(this);
  }

  @Override
  public void run(int worker, int workers) {
    long tiles = Math.ceilDiv(rows, TILE);
    long end = Math.min(rows, tiles * (worker + 1) / workers * TILE);
    for (long row = tiles * worker / workers * TILE; row < end; row += TILE) {
      tile(row, Math.min(end, row + TILE));
    }
  }

  private void tile(long first, long end) {
    for (long c = 0; c < columns; c++) {
      for (long r = first; r < end; r++) {
        long source = r * fromRow + c * fromColumn;
        long target = r * toRow + c * toColumn;
        if (bytes) {
          NativeMemory.putByte(to + target, byteAt(source));
        } else {
          NativeMemory.putInt(to + target * Integer.BYTES, intAt(source * Integer.BYTES));
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
