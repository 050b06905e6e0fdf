package org.ep4j.tensor;

import java.util.Arrays;
import org.ep4j.error.ErrorCode;
import org.ep4j.error.InvalidArgumentException;

/** The rules for shapes of tensors. */
final class TensorShape {
  private TensorShape() {}

  /** Number of elements of a valid shape. */
  static long elements(long[] shape) {
    long n = 1;
    for (long s : shape) {
      n *= s;
    }
    return n;
  }

  /**
   * Bytes of a tensor of this shape.
   *
   * @throws InvalidArgumentException if the shape is invalid
   */
  static long checkedBytes(DType dtype, long[] shape) {
    if (shape.length < 1 || shape.length > 3) {
      throw new InvalidArgumentException(
          ErrorCode.TENSOR_SHAPE,
          "shape",
          Arrays.toString(shape),
          "a shape of 1 to 3 dimensions",
          "reshape the tensor");
    }
    long elements = 1;
    for (long s : shape) {
      if (s < 0) {
        throw new InvalidArgumentException(
            ErrorCode.TENSOR_SHAPE,
            "shape",
            Arrays.toString(shape),
            "free of negative extents",
            "pass the real extents");
      }
      if (s > 0 && elements > Long.MAX_VALUE / Long.SIZE / s) {
        throw new InvalidArgumentException(
            ErrorCode.TENSOR_SHAPE,
            "shape",
            Arrays.toString(shape),
            "a shape of less than 2^57 elements",
            "pass the real extents");
      }
      elements *= s;
    }
    if (elements * dtype.bits() % Byte.SIZE != 0) {
      throw new InvalidArgumentException(
          ErrorCode.TENSOR_SHAPE,
          "shape",
          Arrays.toString(shape),
          "a shape with an even number of elements for " + dtype,
          "pad the rows, because two elements share a byte");
    }
    return dtype.bytes(elements);
  }
}
