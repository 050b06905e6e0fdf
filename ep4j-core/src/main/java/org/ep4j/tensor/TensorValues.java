package org.ep4j.tensor;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.Arrays;
import org.ep4j.error.ErrorCode;
import org.ep4j.error.IllegalUseException;
import org.ep4j.error.InvalidArgumentException;

/**
 * Elements of tensors as Java numbers. A method reads the types whose values all are numbers of the
 * Java type, and refuses the others.
 */
final class TensorValues {
  private static final String INTS = "INT32 or UINT8";
  private static final String LONGS = "INT64, INT32 or UINT8";
  private static final String FLOATS = "a floating-point type";

  private TensorValues() {}

  static int getInt(Tensor tensor, long index) {
    return switch (tensor.dtype()) {
      case INT32 -> int32(tensor.segment(), checked(tensor, index));
      case UINT8 -> uint8(tensor.segment(), checked(tensor, index));
      default -> throw otherType(tensor, "getInt", INTS);
    };
  }

  static long getLong(Tensor tensor, long index) {
    return switch (tensor.dtype()) {
      case INT64 -> int64(tensor.segment(), checked(tensor, index));
      case INT32 -> int32(tensor.segment(), checked(tensor, index));
      case UINT8 -> uint8(tensor.segment(), checked(tensor, index));
      default -> throw otherType(tensor, "getLong", LONGS);
    };
  }

  static float getFloat(Tensor tensor, long index) {
    if (!tensor.dtype().floating()) {
      throw otherType(tensor, "getFloat", FLOATS);
    }
    return FloatConversions.get(tensor.segment(), tensor.dtype(), checked(tensor, index));
  }

  static int[] toIntArray(Tensor tensor) {
    DType dtype = tensor.dtype();
    if (dtype != DType.INT32 && dtype != DType.UINT8) {
      throw otherType(tensor, "toIntArray", INTS);
    }
    int[] values = new int[length(tensor)];
    try (Arena arena = Arena.ofConfined()) {
      MemorySegment host = tensor.onHost(arena).segment();
      for (int i = 0; i < values.length; i++) {
        values[i] = dtype == DType.INT32 ? int32(host, i) : uint8(host, i);
      }
    }
    return values;
  }

  static long[] toLongArray(Tensor tensor) {
    DType dtype = tensor.dtype();
    if (dtype.floating()) {
      throw otherType(tensor, "toLongArray", LONGS);
    }
    long[] values = new long[length(tensor)];
    try (Arena arena = Arena.ofConfined()) {
      MemorySegment host = tensor.onHost(arena).segment();
      for (int i = 0; i < values.length; i++) {
        values[i] =
            dtype == DType.INT64
                ? int64(host, i)
                : dtype == DType.INT32 ? int32(host, i) : uint8(host, i);
      }
    }
    return values;
  }

  static float[] toFloatArray(Tensor tensor) {
    if (!tensor.dtype().floating()) {
      throw otherType(tensor, "toFloatArray", FLOATS);
    }
    float[] values = new float[length(tensor)];
    try (Arena arena = Arena.ofConfined()) {
      FloatConversions.toFloats(tensor.onHost(arena).segment(), tensor.dtype(), values);
    }
    return values;
  }

  /** Rounds one value for each element of the shape into {@code target}. */
  static void round(float[] values, DType dtype, long[] shape, MemorySegment target) {
    requireOneForEach(values, dtype, shape);
    FloatConversions.fromFloats(values, dtype, target);
  }

  /** Rounds one value for each element of the shape into an array. */
  static MemorySegment rounded(float[] values, DType dtype, long[] shape) {
    requireOneForEach(values, dtype, shape);
    // Arrays of elements, where there are such: a reader may rely on their alignment.
    MemorySegment memory =
        switch (dtype) {
          case BF16, FP16 -> MemorySegment.ofArray(new short[values.length]);
          case FP32 -> MemorySegment.ofArray(new float[values.length]);
          case FP8_E4M3, NVFP4 -> MemorySegment.ofArray(new byte[(int) dtype.bytes(values.length)]);
          case INT32, INT64, UE8M0, UINT8 -> MemorySegment.NULL; // refused below
        };
    FloatConversions.fromFloats(values, dtype, memory);
    return memory;
  }

  private static void requireOneForEach(float[] values, DType dtype, long[] shape) {
    if (values.length != TensorShape.elements(shape)) {
      throw new InvalidArgumentException(
          ErrorCode.TENSOR_VALUES,
          "values",
          values.length + " values",
          TensorShape.elements(shape) + " values for " + dtype + Arrays.toString(shape),
          "pass one value for each element");
    }
  }

  private static int int32(MemorySegment memory, long index) {
    return memory.get(ValueLayout.JAVA_INT_UNALIGNED, index << 2);
  }

  private static int uint8(MemorySegment memory, long index) {
    return memory.get(ValueLayout.JAVA_BYTE, index) & 0xFF;
  }

  private static long int64(MemorySegment memory, long index) {
    return memory.get(ValueLayout.JAVA_LONG_UNALIGNED, index << 3);
  }

  private static long checked(Tensor tensor, long index) {
    if (index < 0 || index >= tensor.elements()) {
      throw new InvalidArgumentException(
          ErrorCode.TENSOR_INDEX,
          "index",
          String.valueOf(index),
          "at least 0 and below " + tensor.elements() + " for " + tensor,
          "count elements, not bytes or rows");
    }
    return index;
  }

  private static int length(Tensor tensor) {
    if (tensor.elements() > Integer.MAX_VALUE - 8) {
      throw new IllegalUseException(
          ErrorCode.TENSOR_TOO_LARGE,
          tensor + " has more elements than an array can have: read it in parts, with rows()");
    }
    return (int) tensor.elements();
  }

  private static IllegalUseException otherType(Tensor tensor, String method, String types) {
    String other =
        tensor.dtype().floating()
            ? "getFloat or toFloatArray"
            : tensor.dtype() == DType.INT64
                ? "getLong or toLongArray"
                : "getInt, getLong, toIntArray or toLongArray";
    return new IllegalUseException(
        ErrorCode.TENSOR_READ_TYPE,
        method + " reads " + types + ", but the tensor is " + tensor + ": use " + other);
  }
}
