package org.ep4j.c.struct;

import java.util.Arrays;
import java.util.function.Consumer;
import org.ep4j.error.ErrorCode;
import org.ep4j.error.InvalidArgumentException;
import org.ep4j.memory.NativeMemory;
import org.ep4j.tensor.DType;
import org.ep4j.tensor.Tensor;
import org.jspecify.annotations.Nullable;

/** {@code ep4j_tensor}: views of the caller's memory, and descriptions of the buffer's. */
public final class Tensors {
  private static final int MAX_DIMENSIONS = 3;
  private static final int HOST = -1;

  /** {@code ep4j_tensor}. */
  public static final Struct TENSOR = Struct.fixed("ep4j_tensor");

  private static final long DATA = TENSOR.int64("data");
  private static final long SHAPE = TENSOR.words("shape", MAX_DIMENSIONS * Long.BYTES);
  private static final long STRIDES = TENSOR.words("strides", MAX_DIMENSIONS * Long.BYTES);
  private static final long DIMENSIONS = TENSOR.int32("dimensions");
  private static final long DTYPE = TENSOR.int32("dtype");
  private static final long DEVICE = TENSOR.int32("device");
  private static final long RESERVED = TENSOR.int32("reserved");

  private static final DType[] DTYPES = DType.values();

  private Tensors() {}

  /** Whether a tensor is given. */
  static boolean present(long at) {
    return NativeMemory.getInt(at + DIMENSIONS) != 0;
  }

  /** A row-major tensor over the caller's memory; null if absent. */
  public static @Nullable Tensor read(String field, long at) {
    if (!present(at)) {
      return null;
    }
    long[] shape = shape(field, at);
    if (!isDense(at, shape)) {
      throw new InvalidArgumentException(
          ErrorCode.NATIVE_STRIDES,
          field + ".strides",
          strides(at, shape.length),
          "row-major without gaps for the shape " + Arrays.toString(shape),
          "make the tensor contiguous, or leave the strides 0");
    }
    return over(field, at, shape);
  }

  /** Gives the tensor to an option that is set only if the tensor is given. */
  static void ifPresent(String field, long at, Consumer<Tensor> option) {
    Tensor tensor = read(field, at);
    if (tensor != null) {
      option.accept(tensor);
    }
  }

  /** The same as {@link #read} for a tensor that the function needs. */
  public static Tensor require(String field, long at) {
    Tensor tensor = read(field, at);
    if (tensor == null) {
      throw new InvalidArgumentException(
          ErrorCode.NATIVE_STRUCTURE,
          field,
          "absent (0 dimensions)",
          "a tensor",
          "fill in data, shape, dimensions, dtype and device");
    }
    return tensor;
  }

  /** Whether a matrix is stored by columns, and not by rows as well. */
  static boolean isByColumns(String field, long at) {
    if (NativeMemory.getInt(at + DIMENSIONS) != 2) {
      return false;
    }
    long[] shape = shape(field, at);
    return !isDense(at, shape) && stride(at, 0) == 1 && stride(at, 1) >= shape[0];
  }

  /**
   * A matrix of {@code rows} rows that is stored by columns, [T, S], as its columns [S, A]: these
   * do not tell T.
   */
  static Tensor readColumns(String field, long at, long rows) {
    long[] shape = shape(field, at);
    if (shape[0] != rows) {
      throw new InvalidArgumentException(
          ErrorCode.PAYLOAD_SCALES,
          field + ".shape",
          Arrays.toString(shape),
          "[" + rows + ", scales per row]",
          "pass the block scales of every row");
    }
    return over(field, at, shape[1], stride(at, 1));
  }

  private static Tensor over(String field, long at, long... shape) {
    long address = NativeMemory.getLong(at + DATA);
    DType dtype = dtype(field + ".dtype", NativeMemory.getInt(at + DTYPE));
    int device = NativeMemory.getInt(at + DEVICE);
    if (device < HOST) {
      throw new InvalidArgumentException(
          ErrorCode.NATIVE_VALUE,
          field + ".device",
          Integer.toString(device),
          "EP4J_HOST (-1) or the ordinal of a GPU",
          "say where the memory is");
    }
    // Checks the shape before the memory: without elements, any address will do.
    Tensor tensor = Tensor.ofDevice(address, Math.max(device, 0), dtype, shape);
    if (tensor.elements() > 0) {
      Struct.requirePointer(field + ".data", address);
    }
    return device == HOST
        ? Tensor.of(NativeMemory.view(address, tensor.byteSize()), dtype, shape)
        : tensor;
  }

  private static long[] shape(String field, long at) {
    int dimensions = NativeMemory.getInt(at + DIMENSIONS);
    if (dimensions < 1 || dimensions > MAX_DIMENSIONS) {
      throw new InvalidArgumentException(
          ErrorCode.TENSOR_SHAPE,
          field + ".dimensions",
          Integer.toString(dimensions),
          "1.." + MAX_DIMENSIONS + ", or 0 for no tensor",
          "reshape the tensor");
    }
    long[] shape = new long[dimensions];
    for (int d = 0; d < dimensions; d++) {
      shape[d] = NativeMemory.getLong(at + SHAPE + d * (long) Long.BYTES);
    }
    return shape;
  }

  private static boolean isDense(long at, long[] shape) {
    boolean unset = true;
    boolean dense = true;
    boolean empty = false;
    long expected = 1;
    for (int d = shape.length - 1; d >= 0; d--) {
      unset &= stride(at, d) == 0;
      dense &= shape[d] <= 1 || stride(at, d) == expected;
      empty |= shape[d] == 0;
      expected *= shape[d];
    }
    return unset || dense || empty;
  }

  private static long stride(long at, int dimension) {
    return NativeMemory.getLong(at + STRIDES + dimension * (long) Long.BYTES);
  }

  private static String strides(long at, int dimensions) {
    long[] strides = new long[dimensions];
    Arrays.setAll(strides, d -> stride(at, d));
    return Arrays.toString(strides);
  }

  /** The type with a number. */
  public static DType dtype(String field, int number) {
    return Constants.of(field, number, DTYPES);
  }

  /** Describes a row-major tensor. */
  public static void write(long at, Tensor tensor) {
    int dimensions = tensor.dimensions();
    describe(at, tensor, dimensions);
    long stride = 1;
    for (int d = dimensions - 1; d >= 0; d--) {
      set(at, d, tensor.size(d), stride);
      stride *= tensor.size(d);
    }
  }

  /** Describes scales of {@code rows} rows, or of groups of as many, in either layout. */
  public static void writeScales(long at, Tensor scales, boolean byColumns, long rows) {
    if (byColumns) {
      writeColumns(at, scales, rows);
    } else {
      write(at, scales);
    }
  }

  /**
   * Describes a matrix, or matrices, that {@code tensor} holds by columns: [S, A] as [rows, S], or
   * [G, S, A] as [G, rows, S].
   */
  private static void writeColumns(long at, Tensor tensor, long rows) {
    int dimensions = tensor.dimensions();
    describe(at, tensor, dimensions);
    long columns = tensor.size(dimensions - 2);
    long length = tensor.size(dimensions - 1);
    if (dimensions == MAX_DIMENSIONS) {
      set(at, 0, tensor.size(0), columns * length);
    }
    set(at, dimensions - 2, rows, 1);
    set(at, dimensions - 1, columns, length);
  }

  /** Writes that there is no tensor. */
  public static void writeNone(long at) {
    NativeMemory.putLong(at + DATA, 0);
    NativeMemory.putInt(at + DIMENSIONS, 0);
  }

  private static void describe(long at, Tensor tensor, int dimensions) {
    NativeMemory.putLong(at + DATA, tensor.address());
    NativeMemory.putInt(at + DIMENSIONS, dimensions);
    NativeMemory.putInt(at + DTYPE, Constants.number(tensor.dtype()));
    NativeMemory.putInt(at + DEVICE, tensor.onDevice() ? tensor.device() : HOST);
    NativeMemory.putInt(at + RESERVED, 0);
    for (int d = dimensions; d < MAX_DIMENSIONS; d++) {
      set(at, d, 0, 0);
    }
  }

  private static void set(long at, int dimension, long extent, long stride) {
    NativeMemory.putLong(at + SHAPE + dimension * (long) Long.BYTES, extent);
    NativeMemory.putLong(at + STRIDES + dimension * (long) Long.BYTES, stride);
  }
}
