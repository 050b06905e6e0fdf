package org.ep4j;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.Arrays;
import org.ep4j.engine.Devices;
import org.jspecify.annotations.Nullable;

/**
 * A dense row-major array of one to three dimensions over memory of another owner.
 *
 * <p>The memory is either host memory (a {@link MemorySegment}: native, mapped, or a heap array) or
 * device memory (a raw address, for example a pointer from another library). A tensor owns and
 * closes nothing: the caller keeps the memory alive while an operation uses it. Immutable; any
 * thread may use it.
 */
public final class Tensor {
  private final DType dtype;
  private final long[] shape;
  private final @Nullable MemorySegment segment;
  private final long address;
  private final int device;

  private Tensor(
      DType dtype, long[] shape, @Nullable MemorySegment segment, long address, int device) {
    this.dtype = dtype;
    this.shape = shape;
    this.segment = segment;
    this.address = address;
    this.device = device;
  }

  /**
   * A tensor over host memory.
   *
   * @param segment at least as long as the tensor; a heap segment is copied by engines that need
   *     native memory
   * @param shape one to three extents in elements, outermost first
   * @throws InvalidArgumentException if the shape is invalid or the segment is too short
   */
  public static Tensor of(MemorySegment segment, DType dtype, long... shape) {
    long bytes = checkedBytes(dtype, shape);
    if (segment.byteSize() < bytes) {
      throw new InvalidArgumentException(
          ErrorCode.TENSOR_MEMORY,
          "segment",
          segment.byteSize() + " bytes",
          "at least " + bytes + " bytes for " + dtype + Arrays.toString(shape),
          "pass a segment that holds the whole tensor");
    }
    MemorySegment exact = segment.byteSize() == bytes ? segment : segment.asSlice(0, bytes);
    return new Tensor(dtype, shape.clone(), exact, exact.address(), -1);
  }

  /**
   * A tensor at a raw device address, for example a pointer from another library.
   *
   * @param address first byte, in the address space of {@code device}
   * @param device ordinal of the device that owns the memory
   * @throws InvalidArgumentException if the shape is invalid or the ordinal is negative
   */
  public static Tensor ofDevice(long address, int device, DType dtype, long... shape) {
    checkedBytes(dtype, shape);
    if (device < 0) {
      throw new InvalidArgumentException(
          ErrorCode.TENSOR_DEVICE,
          "device",
          String.valueOf(device),
          ">= 0",
          "pass the device's ordinal");
    }
    return new Tensor(dtype, shape.clone(), null, address, device);
  }

  /** An FP32 tensor over a heap array. */
  public static Tensor of(float[] values, long... shape) {
    return of(MemorySegment.ofArray(values), DType.FP32, shape);
  }

  /** A BF16 tensor over a heap array of raw 16-bit patterns. */
  public static Tensor ofBf16(short[] values, long... shape) {
    return of(MemorySegment.ofArray(values), DType.BF16, shape);
  }

  /** An INT32 tensor over a heap array. */
  public static Tensor of(int[] values, long... shape) {
    return of(MemorySegment.ofArray(values), DType.INT32, shape);
  }

  /** An INT64 tensor over a heap array. */
  public static Tensor of(long[] values, long... shape) {
    return of(MemorySegment.ofArray(values), DType.INT64, shape);
  }

  /** Element type. */
  public DType dtype() {
    return dtype;
  }

  /** Number of dimensions, 1 to 3. */
  public int dimensions() {
    return shape.length;
  }

  /** Extent of dimension {@code d} in elements; the outermost dimension is 0. */
  public long size(int d) {
    return shape[d];
  }

  /** A copy of the extents. */
  public long[] shape() {
    return shape.clone();
  }

  /** Number of elements. */
  public long elements() {
    long n = 1;
    for (long s : shape) {
      n *= s;
    }
    return n;
  }

  /** Number of bytes. */
  public long byteSize() {
    return dtype.bytes(elements());
  }

  /** Whether the memory is device memory. */
  public boolean onDevice() {
    return device >= 0;
  }

  /** Ordinal of the owning device, -1 for host memory. */
  public int device() {
    return device;
  }

  /** First byte: a native host address, a device address, or an offset for a heap segment. */
  public long address() {
    return address;
  }

  /** Whether the memory has a native host address that engines can use without a copy. */
  public boolean nativeHost() {
    return segment != null && segment.isNative();
  }

  /**
   * The host memory, exactly as long as the tensor.
   *
   * @throws IllegalUseException for a device tensor
   */
  public MemorySegment segment() {
    if (segment == null) {
      throw new IllegalUseException(
          ErrorCode.TENSOR_ON_DEVICE,
          "the tensor is in memory of device "
              + device
              + ": copy it to the host before reading it");
    }
    return segment;
  }

  /**
   * Rows {@code from} (inclusive) to {@code to} (exclusive) of the outermost dimension; shares the
   * memory.
   *
   * @throws InvalidArgumentException if the range is outside the tensor
   */
  public Tensor rows(long from, long to) {
    if (from < 0 || to < from || to > shape[0]) {
      throw new InvalidArgumentException(
          ErrorCode.TENSOR_RANGE,
          "rows",
          from + ".." + to,
          "inside 0.." + shape[0],
          "stay inside the outermost dimension");
    }
    long[] cut = shape.clone();
    cut[0] = to - from;
    long rowBytes = shape[0] == 0 ? 0 : byteSize() / shape[0];
    if (segment == null) {
      return new Tensor(dtype, cut, null, address + from * rowBytes, device);
    }
    MemorySegment part = segment.asSlice(from * rowBytes, (to - from) * rowBytes);
    return new Tensor(dtype, cut, part, part.address(), -1);
  }

  /**
   * This tensor if it is a host tensor, otherwise a host copy.
   *
   * @param arena owns the copy
   * @throws EngineUnavailableException for a device tensor if no module can reach devices
   */
  public Tensor onHost(Arena arena) {
    if (segment != null) {
      return this;
    }
    // An empty allocation has no address of its own, and engines may read addresses.
    MemorySegment copy = arena.allocate(Math.max(1, byteSize()), 64);
    copyTo(copy);
    return of(copy, dtype, shape);
  }

  /**
   * Copies the bytes into {@code target}, which must be at least {@link #byteSize()} long. A copy
   * from a device does not wait for pending work that writes the tensor: wait for the event or the
   * stream of that work first.
   *
   * @throws InvalidArgumentException if {@code target} is too short
   * @throws EngineUnavailableException for a device tensor if no module can reach devices
   */
  public void copyTo(MemorySegment target) {
    MemorySegment exact = exactly("target", target);
    if (segment == null) {
      if (exact.byteSize() > 0) {
        Devices.access(device).copyToHost(device, address, exact);
      }
    } else {
      exact.copyFrom(segment);
    }
  }

  /**
   * Copies the first {@link #byteSize()} bytes of {@code source} into this tensor's memory. A copy
   * to a device does not wait for work that still reads the tensor.
   *
   * @throws InvalidArgumentException if {@code source} is too short
   * @throws EngineUnavailableException for a device tensor if no module can reach devices
   */
  public void copyFrom(MemorySegment source) {
    MemorySegment exact = exactly("source", source);
    if (segment == null) {
      if (exact.byteSize() > 0) {
        Devices.access(device).copyFromHost(device, address, exact);
      }
    } else {
      segment.copyFrom(exact);
    }
  }

  private MemorySegment exactly(String name, MemorySegment memory) {
    if (memory.byteSize() < byteSize()) {
      throw new InvalidArgumentException(
          ErrorCode.TENSOR_MEMORY,
          name,
          memory.byteSize() + " bytes",
          "at least " + byteSize() + " bytes, the size of " + this,
          "pass a segment that holds the whole tensor");
    }
    return memory.asSlice(0, byteSize());
  }

  /** Element {@code index} (flat) of an INT32 host tensor. */
  public int getInt(long index) {
    return segment().get(ValueLayout.JAVA_INT_UNALIGNED, index << 2);
  }

  /** Element {@code index} (flat) of an INT64 host tensor. */
  public long getLong(long index) {
    return segment().get(ValueLayout.JAVA_LONG_UNALIGNED, index << 3);
  }

  /** Element {@code index} (flat) of an FP32 host tensor. */
  public float getFloat(long index) {
    return segment().get(ValueLayout.JAVA_FLOAT_UNALIGNED, index << 2);
  }

  /** Element {@code index} (flat) of a BF16 host tensor, widened exactly. */
  public float getBf16(long index) {
    return Float.intBitsToFloat(segment().get(ValueLayout.JAVA_SHORT_UNALIGNED, index << 1) << 16);
  }

  @Override
  public String toString() {
    return dtype
        + Arrays.toString(shape)
        + (onDevice() ? "@device" + device : nativeHost() ? "@host" : "@heap");
  }

  private static long checkedBytes(DType dtype, long[] shape) {
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
