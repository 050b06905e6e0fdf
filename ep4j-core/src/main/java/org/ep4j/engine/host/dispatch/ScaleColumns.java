package org.ep4j.engine.host.dispatch;

import org.ep4j.DType;
import org.ep4j.ScaleLayout;
import org.ep4j.engine.host.exec.WorkerTeam;
import org.ep4j.memory.NativeMemory;

/**
 * Transposes received scales for {@link ScaleLayout#COLUMN_MAJOR}, from the region, where peers
 * write them row by row, into private memory. Workers take runs of rows.
 */
public final class ScaleColumns implements WorkerTeam.Task {
  /** Number of rows per step, so that a worker writes whole lines of each column. */
  private static final long TILE = 64;

  private long from;
  private long to;
  private long rows;
  private long columns;
  private long length;
  private boolean bytes;

  /**
   * Transposes the scales of one dispatch; returns when all workers are done.
   *
   * @param from address of the scales [rows, columns]
   * @param to address of the result
   * @param limit row capacity of the columns
   */
  public void transpose(
      long from, long to, DType dtype, long rows, long limit, long columns, WorkerTeam team) {
    this.from = from;
    this.to = to;
    this.rows = rows;
    this.columns = columns;
    length = ScaleLayout.columnLength(dtype, limit);
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
      if (bytes) {
        for (long r = first; r < end; r++) {
          byte scale = NativeMemory.getByte(from + r * columns + c);
          NativeMemory.putByte(to + c * length + r, scale);
        }
      } else {
        for (long r = first; r < end; r++) {
          int scale = NativeMemory.getInt(from + (r * columns + c) * Integer.BYTES);
          NativeMemory.putInt(to + (c * length + r) * Integer.BYTES, scale);
        }
      }
    }
  }
}
