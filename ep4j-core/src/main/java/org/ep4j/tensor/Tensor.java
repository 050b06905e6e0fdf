package org.ep4j.tensor;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.FloatBuffer;
import java.nio.IntBuffer;
import java.nio.LongBuffer;
import java.nio.ShortBuffer;
import java.util.Arrays;
import org.ep4j.error.EngineUnavailableException;
import org.ep4j.error.ErrorCode;
import org.ep4j.error.IllegalUseException;
import org.ep4j.error.InvalidArgumentException;
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
  private final long elements;
  private final @Nullable MemorySegment segment;
  private final long address;
  private final int device;

  private Tensor(
      DType dtype, long[] shape, @Nullable MemorySegment segment, long address, int device) {
    this.dtype = dtype;
    this.shape = shape;
    this.elements = TensorShape.elements(shape);
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
    long bytes = TensorShape.checkedBytes(dtype, shape);
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
    TensorShape.checkedBytes(dtype, shape);
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

  /** An FP16 tensor over a heap array of raw 16-bit patterns. */
  public static Tensor ofFp16(short[] values, long... shape) {
    return of(MemorySegment.ofArray(values), DType.FP16, shape);
  }

  /** An INT32 tensor over a heap array. */
  public static Tensor of(int[] values, long... shape) {
    return of(MemorySegment.ofArray(values), DType.INT32, shape);
  }

  /** An INT64 tensor over a heap array. */
  public static Tensor of(long[] values, long... shape) {
    return of(MemorySegment.ofArray(values), DType.INT64, shape);
  }

  /**
   * A tensor over a heap array of raw bytes; elements of several bytes are in the native byte
   * order.
   */
  public static Tensor of(byte[] values, DType dtype, long... shape) {
    return of(MemorySegment.ofArray(values), dtype, shape);
  }

  /**
   * A tensor over the bytes from the buffer's position to its limit, at least as many as the tensor
   * has. The buffer's position does not change. A tensor over a read-only buffer can be an input,
   * but not an output.
   *
   * @param buffer in the native byte order: a new {@link ByteBuffer} is big-endian, so call {@code
   *     buffer.order(ByteOrder.nativeOrder())}. For elements of a byte or less any order is allowed
   * @throws InvalidArgumentException if the byte order is foreign, the shape is invalid or the
   *     buffer is too short
   */
  public static Tensor of(ByteBuffer buffer, DType dtype, long... shape) {
    return of(BufferMemory.of(buffer, dtype), dtype, shape);
  }

  /** An FP32 tensor over a buffer, as {@link #of(ByteBuffer, DType, long...)}. */
  public static Tensor of(FloatBuffer buffer, long... shape) {
    return of(BufferMemory.of(buffer, buffer.order()), DType.FP32, shape);
  }

  /** An INT32 tensor over a buffer, as {@link #of(ByteBuffer, DType, long...)}. */
  public static Tensor of(IntBuffer buffer, long... shape) {
    return of(BufferMemory.of(buffer, buffer.order()), DType.INT32, shape);
  }

  /** An INT64 tensor over a buffer, as {@link #of(ByteBuffer, DType, long...)}. */
  public static Tensor of(LongBuffer buffer, long... shape) {
    return of(BufferMemory.of(buffer, buffer.order()), DType.INT64, shape);
  }

  /**
   * A tensor over a buffer of raw 16-bit patterns, as {@link #of(ByteBuffer, DType, long...)}.
   *
   * @param dtype BF16 or FP16
   */
  public static Tensor of(ShortBuffer buffer, DType dtype, long... shape) {
    return of(BufferMemory.of(buffer, dtype), dtype, shape);
  }

  /**
   * A tensor on the heap with its own copy of {@code values}, rounded to {@code dtype} as {@link
   * FloatConversions} defines. No scale is applied.
   *
   * @param values one for each element
   * @param dtype BF16, FP16, FP32, FP8_E4M3 or NVFP4
   * @throws InvalidArgumentException if the type is another one, the shape is invalid or has
   *     another number of elements
   */
  public static Tensor fromFloats(float[] values, DType dtype, long... shape) {
    TensorShape.checkedBytes(dtype, shape);
    return of(TensorValues.rounded(values, dtype, shape), dtype, shape);
  }

  /**
   * A tensor of zeros in native memory, aligned to 64 bytes. Engines use native memory without a
   * copy.
   *
   * @param arena owns the memory
   * @throws InvalidArgumentException if the shape is invalid
   */
  public static Tensor allocate(Arena arena, DType dtype, long... shape) {
    // An empty allocation has no address of its own, and engines may read addresses.
    long bytes = Math.max(1, TensorShape.checkedBytes(dtype, shape));
    return of(arena.allocate(bytes, 64), dtype, shape);
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
    return elements;
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
   * The elements for libraries that read buffers: direct, in native byte order, read-only. Shares
   * native memory, and copies memory of the heap. {@code asFloatBuffer()} and the like of the
   * result keep the order.
   *
   * @throws IllegalUseException for a device tensor, or one of 2 GiB and more
   */
  public ByteBuffer asReadOnlyBuffer() {
    MemorySegment host = segment();
    if (byteSize() > Integer.MAX_VALUE) {
      throw new IllegalUseException(
          ErrorCode.TENSOR_TOO_LARGE,
          this + " has " + byteSize() + " bytes, a buffer at most 2147483647: pass rows of it");
    }
    ByteBuffer bytes;
    if (host.isNative()) {
      bytes = host.asByteBuffer();
    } else {
      bytes = ByteBuffer.allocateDirect((int) byteSize());
      MemorySegment.ofBuffer(bytes).copyFrom(host);
    }
    return bytes.asReadOnlyBuffer().order(ByteOrder.nativeOrder());
  }

  /**
   * Rows {@code from} (inclusive) to {@code to} (exclusive) of the outermost dimension; shares the
   * memory.
   *
   * @throws InvalidArgumentException if the range is outside the tensor, or begins or ends inside a
   *     byte: rows of NVFP4 may have an odd number of elements
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
    long rowBits = shape[0] == 0 ? 0 : elements / shape[0] * dtype.bits();
    if (from * rowBits % Byte.SIZE != 0 || to * rowBits % Byte.SIZE != 0) {
      throw new InvalidArgumentException(
          ErrorCode.TENSOR_RANGE,
          "rows",
          from + ".." + to,
          "a range of whole bytes of " + this,
          "begin and end at even rows, because two elements share a byte");
    }
    long begin = from * rowBits / Byte.SIZE;
    if (segment == null) {
      return new Tensor(dtype, cut, null, address + begin, device);
    }
    MemorySegment part = segment.asSlice(begin, to * rowBits / Byte.SIZE - begin);
    return new Tensor(dtype, cut, part, part.address(), -1);
  }

  /**
   * The same elements in another shape; shares the memory.
   *
   * @throws InvalidArgumentException if the shape is invalid or has another number of elements
   */
  public Tensor reshape(long... newShape) {
    if (TensorShape.checkedBytes(dtype, newShape) != byteSize()) {
      throw new InvalidArgumentException(
          ErrorCode.TENSOR_SHAPE,
          "shape",
          Arrays.toString(newShape),
          "a shape of " + elements() + " elements",
          "keep the number of elements");
    }
    return new Tensor(dtype, newShape.clone(), segment, address, device);
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
    Tensor copy = allocate(arena, dtype, shape);
    copyTo(copy.segment());
    return copy;
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
    TensorCopies.copyTo(this, target);
  }

  /**
   * Copies the first {@link #byteSize()} bytes of {@code source} into this tensor's memory. A copy
   * to a device does not wait for work that still reads the tensor.
   *
   * @throws InvalidArgumentException if {@code source} is too short
   * @throws IllegalUseException if the tensor is in read-only memory
   * @throws EngineUnavailableException for a device tensor if no module can reach devices
   */
  public void copyFrom(MemorySegment source) {
    TensorCopies.copyFrom(this, source);
  }

  /**
   * Rounds {@code values} as {@link #fromFloats}, and copies them as {@link
   * #copyFrom(MemorySegment)}.
   *
   * @throws InvalidArgumentException if the number of values is not that of the elements, or the
   *     type is not one of {@link #fromFloats}
   */
  public void copyFrom(float[] values) {
    TensorCopies.copyFrom(this, values);
  }

  /**
   * Element {@code index} (flat, row-major) of an INT32 or UINT8 host tensor.
   *
   * @throws IllegalUseException for another type, or for a device tensor
   * @throws InvalidArgumentException if the index is outside the tensor
   */
  public int getInt(long index) {
    return TensorValues.getInt(this, index);
  }

  /** As {@link #getInt}, for INT64, INT32 and UINT8. */
  public long getLong(long index) {
    return TensorValues.getLong(this, index);
  }

  /**
   * As {@link #getInt}, for {@linkplain DType#floating() floating-point} types, widened exactly. No
   * scale is applied.
   */
  public float getFloat(long index) {
    return TensorValues.getFloat(this, index);
  }

  /**
   * A copy of all elements of an INT32 or UINT8 tensor, row-major. A device tensor is read as by
   * {@link #copyTo}.
   *
   * @throws IllegalUseException for another type, or if an array cannot hold all elements
   * @throws EngineUnavailableException for a device tensor if no module can reach devices
   */
  public int[] toIntArray() {
    return TensorValues.toIntArray(this);
  }

  /** As {@link #toIntArray}, for INT64, INT32 and UINT8. */
  public long[] toLongArray() {
    return TensorValues.toLongArray(this);
  }

  /**
   * As {@link #toIntArray}, for {@linkplain DType#floating() floating-point} types, widened
   * exactly. No scale is applied.
   */
  public float[] toFloatArray() {
    return TensorValues.toFloatArray(this);
  }

  /** Element type, shape and place, for example {@code BF16[4, 128]@host}. */
  @Override
  public String toString() {
    return dtype
        + Arrays.toString(shape)
        + (onDevice() ? "@device" + device : nativeHost() ? "@host" : "@heap");
  }
}
