package org.ep4j.cuda.engine.context;

import java.lang.foreign.MemorySegment;
import java.util.EnumMap;
import java.util.Locale;
import java.util.Map;
import java.util.function.Supplier;
import org.ep4j.cuda.backend.StepFailure;
import org.ep4j.cuda.driver.CudaDevice;
import org.ep4j.cuda.driver.CudaStream;
import org.ep4j.cuda.driver.DeviceCopies;
import org.ep4j.cuda.driver.DeviceMemory;
import org.ep4j.cuda.driver.PinnedMemory;
import org.ep4j.cuda.driver.ResourceStack;
import org.ep4j.cuda.engine.failure.Completion;
import org.ep4j.engine.Arguments;
import org.ep4j.engine.CallMemory;
import org.ep4j.error.ErrorCode;
import org.ep4j.error.InvalidArgumentException;
import org.ep4j.tensor.Tensor;
import org.jspecify.annotations.Nullable;

/**
 * Device addresses of a call's tensors: device tensors directly, host tensors through a copy.
 * Memory for copies is allocated on first use and grows; outgrown memory is freed with the buffer,
 * because freeing waits for kernels of other ranks too.
 */
public final class Staging implements AutoCloseable {
  /** Staged arguments; each has its own memory. */
  public enum Buffer {
    X,
    SCALES,
    SCALE_ROWS,
    FACTORS,
    IDS,
    EXPERT_IDS,
    WEIGHTS,
    Y,
    ROW_WEIGHTS,
    BIAS0,
    BIAS1,
    OUT,
    OUT_WEIGHTS,
    COMBINE_INPUT,
    LAYOUT,
    TOKEN_IN_RANK,
    BLOCK_COUNTS,
    LOGICAL_IDS,
    SCALE_COLUMNS,
    LATENCY_IDS_EVEN,
    LATENCY_IDS_ODD,
    LATENCY_EXPERT_IDS_EVEN,
    LATENCY_EXPERT_IDS_ODD,
    LATENCY_LOGICAL_IDS_EVEN,
    LATENCY_LOGICAL_IDS_ODD,
    LATENCY_WEIGHTS_EVEN,
    LATENCY_WEIGHTS_ODD,
    CUMULATIVE_STATS,
    WAIT_STATS
  }

  private static final int ROW_ALIGNMENT = 16;

  private final int rank;
  private final CudaDevice device;
  private final Completion completion;
  private final Map<Buffer, DeviceMemory> buffers = new EnumMap<>(Buffer.class);
  private final Map<Buffer, PinnedMemory> sources = new EnumMap<>(Buffer.class);

  /** All memory, including outgrown memory. */
  private final ResourceStack owned = new ResourceStack();

  private final CallMemory anywhere = new Accepted(false);
  private final CallMemory onDevice = new Accepted(true);

  private long bytes;

  public Staging(int rank, CudaDevice device, Completion completion) {
    this.rank = rank;
    this.device = device;
    this.completion = completion;
  }

  /**
   * What this engine accepts as tensors of a call.
   *
   * @param capturing whether a graph is being captured: a replay cannot copy from the host
   */
  public CallMemory accepted(boolean capturing) {
    return capturing ? onDevice : anywhere;
  }

  private final class Accepted implements CallMemory {
    private final boolean capturing;

    private Accepted(boolean capturing) {
      this.capturing = capturing;
    }

    @Override
    public void readable(String name, @Nullable Tensor tensor) {
      if (tensor == null) {
        return;
      }
      if (!tensor.onDevice()) {
        if (capturing) {
          throw new InvalidArgumentException(
              ErrorCode.CUDA_TENSOR_MEMORY,
              name,
              tensor.toString(),
              "on the device while a graph is captured",
              "copy it to the device first");
        }
        Arguments.onHost(name, tensor);
      } else if (tensor.device() != device.ordinal()) {
        throw new InvalidArgumentException(
            ErrorCode.CUDA_TENSOR_MEMORY,
            name,
            tensor.toString(),
            "on device " + device.ordinal() + ", the device of this rank",
            "copy it there");
      }
    }

    /** Rows are moved in units of 16 bytes. */
    @Override
    public void rows(String name, @Nullable Tensor tensor) {
      readable(name, tensor);
      if (tensor != null && tensor.onDevice() && tensor.address() % ROW_ALIGNMENT != 0) {
        throw new InvalidArgumentException(
            ErrorCode.CUDA_TENSOR_MEMORY,
            name,
            tensor + " at 0x" + Long.toHexString(tensor.address()),
            "at a multiple of " + ROW_ALIGNMENT + " bytes",
            "allocate it aligned");
      }
    }

    @Override
    public void writable(String name, @Nullable Tensor tensor) {
      readable(name, tensor);
      if (tensor != null && !tensor.onDevice()) {
        Arguments.writableOnHost(name, tensor);
      }
    }

    @Override
    public void writableRows(String name, @Nullable Tensor tensor) {
      rows(name, tensor);
      writable(name, tensor);
    }
  }

  /** Copies a host tensor that kernels have changed back; the kernels have ended. */
  public void back(Buffer buffer, @Nullable Tensor tensor) {
    if (tensor != null && !tensor.onDevice() && tensor.byteSize() > 0) {
      DeviceCopies.toHost(device, tensor.segment(), memory(buffer, tensor.byteSize()));
    }
  }

  /** Device address of the tensor; 0 for null. */
  public long address(Buffer buffer, @Nullable Tensor tensor, CudaStream stream) {
    if (tensor == null) {
      return 0;
    }
    if (tensor.onDevice()) {
      // Kernels take 0 for a missing tensor; an empty one may lie at 0, and no kernel reads it.
      return tensor.byteSize() == 0 ? ROW_ALIGNMENT : tensor.address();
    }
    long target = memory(buffer, tensor.byteSize());
    if (tensor.byteSize() == 0) {
      return target;
    }
    PinnedMemory source = source(buffer, tensor.byteSize());
    MemorySegment part = source.segment().asSlice(0, tensor.byteSize());
    // Earlier staged data must have been copied. Page-locked memory keeps the driver from waiting
    // inside the call, where other ranks of this process would be blocked.
    completion.awaitAll();
    part.copyFrom(tensor.segment());
    DeviceCopies.toDevice(target, part, stream);
    return target;
  }

  /** Address of a copy of a device tensor. */
  public long copy(Buffer buffer, Tensor tensor, CudaStream stream) {
    long target = memory(buffer, tensor.byteSize());
    if (tensor.byteSize() > 0) {
      DeviceCopies.copy(target, tensor.address(), tensor.byteSize(), stream);
    }
    return target;
  }

  private PinnedMemory source(Buffer buffer, long wanted) {
    PinnedMemory memory = sources.get(buffer);
    if (memory == null || memory.bytes() < wanted) {
      memory = owned.own(first(buffer, () -> PinnedMemory.allocate(device, wanted)));
      bytes += memory.bytes();
      sources.put(buffer, memory);
    }
    return memory;
  }

  /** Memory of at least {@code wanted} bytes. */
  public long memory(Buffer buffer, long wanted) {
    DeviceMemory memory = buffers.get(buffer);
    if (memory == null || memory.bytes() < wanted) {
      memory = owned.own(first(buffer, () -> DeviceMemory.allocate(device, Math.max(wanted, 1))));
      bytes += memory.bytes();
      buffers.put(buffer, memory);
    }
    return memory.address();
  }

  private <T> T first(Buffer buffer, Supplier<T> allocation) {
    String name = buffer.name().toLowerCase(Locale.ROOT);
    return StepFailure.explained(rank, "memory of operations (" + name + ")", allocation);
  }

  /**
   * Same as {@link #memory}, zeroed when new: its words carry epochs, and words of an earlier
   * buffer must not look like those of this buffer.
   */
  public long words(Buffer buffer, long wanted, CudaStream stream) {
    DeviceMemory before = buffers.get(buffer);
    long address = memory(buffer, wanted);
    if (buffers.get(buffer) != before) {
      clear(buffer, stream);
      stream.synchronize();
    }
    return address;
  }

  /** Zeroes the memory if allocated. */
  void clear(Buffer buffer, CudaStream stream) {
    DeviceMemory memory = buffers.get(buffer);
    if (memory != null) {
      memory.fill8(0, memory.bytes(), (byte) 0, stream);
    }
  }

  /** Bytes on the device and of page-locked memory. */
  public long bytes() {
    return bytes;
  }

  @Override
  public void close() {
    owned.close();
  }
}
