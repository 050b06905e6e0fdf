package org.ep4j.verify;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.Arrays;
import org.ep4j.tensor.DType;
import org.ep4j.tensor.Tensor;
import org.jspecify.annotations.Nullable;

/**
 * Compares outputs of one operation on one rank and throws at the first difference. Tensors on a
 * device are compared in host copies, which live until {@link #close}.
 */
final class Check implements AutoCloseable {
  private final String operation;
  private final int rank;
  private final Arena copies = Arena.ofConfined();

  Check(String operation, int rank) {
    this.operation = operation;
    this.rank = rank;
  }

  /** Identity of a row, for the report of a mismatch. */
  record Location(long row, int sourceRank, int sourceToken, int expert) {
    static final Location NONE = new Location(-1, -1, -1, -1);

    static Location element(long index) {
      return new Location(index, -1, -1, -1);
    }
  }

  /** Checks existence, dtype and shape; returns the tensor in host memory. */
  Tensor tensor(String output, @Nullable Tensor actual, DType dtype, long... shape) {
    return rows(output, actual, Long.MAX_VALUE, dtype, shape);
  }

  /** The same for the first {@code wanted} rows only, or all rows if there are fewer. */
  Tensor rows(String output, @Nullable Tensor actual, long wanted, DType dtype, long... shape) {
    String expected = dtype + Arrays.toString(shape);
    if (actual == null) {
      throw wrong(output, Location.NONE, -1, expected, "null");
    }
    if (actual.dtype() != dtype || !Arrays.equals(actual.shape(), shape)) {
      throw wrong(
          output, Location.NONE, -1, expected, actual.dtype() + Arrays.toString(actual.shape()));
    }
    return (wanted < shape[0] ? actual.rows(0, wanted) : actual).onHost(copies);
  }

  void requireNull(String output, @Nullable Tensor actual) {
    if (actual != null) {
      throw wrong(output, Location.NONE, -1, "null", actual.toString());
    }
  }

  void value(String output, Location place, long expected, long actual) {
    if (expected != actual) {
      throw wrong(output, place, -1, String.valueOf(expected), String.valueOf(actual));
    }
  }

  /** An element of low latency's layoutRange: the first row and the number of rows. */
  void range(Location place, long first, long count, long actual) {
    value("layoutRange (count)", place, count, actual & 0xFFFF_FFFFL);
    // The first row is undefined without rows.
    if (count > 0) {
      value("layoutRange (first row)", place, first, actual >>> 32);
    }
  }

  /** All elements of an INT32 tensor. */
  void ints(String output, @Nullable Tensor actual, int[] expected, long... shape) {
    Tensor tensor = tensor(output, actual, DType.INT32, shape);
    MemorySegment wanted = MemorySegment.ofArray(expected);
    long at = tensor.segment().mismatch(wanted);
    if (at >= 0) {
      long i = at / Integer.BYTES;
      value(output, Location.element(i), expected[(int) i], tensor.getInt(i));
    }
  }

  /** All elements of an INT64 tensor. */
  void longs(String output, @Nullable Tensor actual, long[] expected, long... shape) {
    Tensor tensor = tensor(output, actual, DType.INT64, shape);
    long at = tensor.segment().mismatch(MemorySegment.ofArray(expected));
    if (at >= 0) {
      long i = at / Long.BYTES;
      value(output, Location.element(i), expected[(int) i], tensor.getLong(i));
    }
  }

  /** Compares one row of {@code actual}, which begins at {@code offset}, with {@code expected}. */
  void bytes(
      String output, MemorySegment expected, MemorySegment actual, long offset, Location place) {
    long bytes = expected.byteSize();
    long at = MemorySegment.mismatch(expected, 0, bytes, actual, offset, offset + bytes);
    if (at >= 0) {
      throw wrong(
          output,
          place,
          at,
          Mismatch.hex(expected, at),
          Mismatch.hex(actual.asSlice(offset, bytes), at));
    }
  }

  VerificationException wrong(
      String output, Location place, long byteOffset, String expected, String actual) {
    return new VerificationException(
        new Mismatch(
            operation,
            output,
            rank,
            place.row(),
            place.sourceRank(),
            place.sourceToken(),
            place.expert(),
            byteOffset,
            expected,
            actual));
  }

  @Override
  public void close() {
    copies.close();
  }
}
