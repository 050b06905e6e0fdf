package org.ep4j.cuda.probe;

import org.ep4j.error.ErrorCode;
import org.ep4j.error.InvalidArgumentException;

/**
 * Load that every GPU pushes.
 *
 * @param rowBytes length of a row, a multiple of 16
 * @param rows rows to each destination
 * @param local whether a GPU also pushes to itself, as in a dispatch
 */
public record ProbeLoad(int rowBytes, int rows, boolean local) {
  private static final int UNIT = 16;
  private static final int MAX_ROWS = 1 << 24;

  /** Checks the limits of the kernels. */
  public ProbeLoad {
    if (rowBytes < UNIT || rowBytes % UNIT != 0) {
      throw new InvalidArgumentException(
          ErrorCode.PROBE_LOAD,
          "rowBytes",
          String.valueOf(rowBytes),
          "a positive multiple of 16",
          "round it up");
    }
    if (rows < 1 || rows > MAX_ROWS) {
      throw new InvalidArgumentException(
          ErrorCode.PROBE_LOAD,
          "rows",
          String.valueOf(rows),
          "1.." + MAX_ROWS,
          "push fewer rows, more often");
    }
  }

  /** Bytes from one GPU to one destination. */
  long bytesOfPair() {
    return (long) rows * rowBytes;
  }
}
