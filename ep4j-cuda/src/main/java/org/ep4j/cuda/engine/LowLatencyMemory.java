package org.ep4j.cuda.engine;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import org.ep4j.BufferConfig;
import org.ep4j.DType;
import org.ep4j.Tensor;
import org.ep4j.cuda.driver.CudaDevice;
import org.ep4j.cuda.driver.DeviceMemory;
import org.jspecify.annotations.Nullable;

/**
 * The low-latency memory of one rank that no peer reaches, and views of it. What the operations
 * need is made at once; the padded rows of a dispatch, and the regions that callers fill before a
 * zero-copy combine, when they are first asked for. Outputs come twice and alternate. Memory that
 * has been outgrown is freed with the buffer, because freeing waits for kernels of other ranks too.
 */
final class LowLatencyMemory implements AutoCloseable {
  /** The last two dispatches, and one whose combine may still be on its way. */
  static final int RECORDS = 3;

  private static final int HALVES = 2;
  private static final long ALIGNMENT = 256;

  private final CudaDevice device;
  private final DeviceMemory fixed;
  private final int ranks;
  private final int experts;
  private final long capacity;
  private final int hidden;
  private final long sourceTokens;
  private final long ranges;
  private final long rowCounts;
  private final long sums;
  private final long half;
  private final long places;
  private final long batches;
  private final long choices;
  private final long record;
  private final Half[] halves = new Half[HALVES];
  private final List<DeviceMemory> outgrown = new ArrayList<>();
  private long grown;

  LowLatencyMemory(CudaDevice device, BufferConfig config, int ranks, int localExperts) {
    this.device = device;
    this.ranks = ranks;
    experts = localExperts;
    hidden = config.hidden();
    long tokens = config.lowLatencyMaxTokens();
    capacity = ranks * tokens;
    sourceTokens = 0;
    ranges = align(experts * capacity * Integer.BYTES);
    rowCounts = align(ranges + (long) experts * ranks * Long.BYTES);
    sums = align(rowCounts + (long) experts * Integer.BYTES);
    half = align(sums + tokens * 2 * hidden);
    places = 0;
    batches = align(capacity * config.topK() * Integer.BYTES);
    choices = align(batches + (long) ranks * Integer.BYTES);
    record = align(choices + tokens * config.topK() * Long.BYTES);
    fixed = DeviceMemory.allocate(device, HALVES * half + RECORDS * record);
    for (int i = 0; i < HALVES; i++) {
      halves[i] = new Half(fixed.address() + i * half, (int) tokens);
    }
  }

  private static long align(long offset) {
    return (offset + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
  }

  /** Rows that each local expert has room for, R*M. */
  long capacity() {
    return capacity;
  }

  /** Bytes on the device so far. */
  long bytes() {
    return fixed.bytes() + grown;
  }

  long places(int i) {
    return record(i) + places;
  }

  long batches(int i) {
    return record(i) + batches;
  }

  long choices(int i) {
    return record(i) + choices;
  }

  private long record(int i) {
    return fixed.address() + HALVES * half + i * record;
  }

  Half half(int i) {
    return halves[i];
  }

  private Tensor view(long address, DType dtype, long... shape) {
    return Tensor.ofDevice(address, device.ordinal(), dtype, shape);
  }

  private DeviceMemory allocate(long bytes, boolean capturing) {
    if (capturing) {
      throw new IllegalStateException(
          "memory of "
              + bytes
              + " bytes is made at the first low-latency operation of its kind, which cannot be"
              + " while a graph is captured: run the same operations twice before capturing them");
    }
    DeviceMemory memory = DeviceMemory.allocate(device, Math.max(1, bytes));
    grown += memory.bytes();
    return memory;
  }

  /** One of the two sets of outputs. */
  final class Half {
    private final long start;
    private final Tensor sourceInfo;
    private final Tensor layoutRange;
    private final Tensor receiveCount;
    private final @Nullable Tensor[] sumViews;
    private final @Nullable Tensor[] rowViews = new Tensor[LowLatencyFormat.COUNT];
    private final @Nullable Tensor[] scaleViews = new Tensor[LowLatencyFormat.COUNT];
    private final @Nullable Tensor[] columnViews = new Tensor[LowLatencyFormat.COUNT];
    private @Nullable DeviceMemory output;
    private @Nullable DeviceMemory input;
    private @Nullable Tensor inputView;

    private Half(long start, int tokens) {
      this.start = start;
      sumViews = new Tensor[tokens + 1];
      sourceInfo = view(sourceTokens(), DType.INT32, experts, capacity);
      layoutRange = view(ranges(), DType.INT64, experts, ranks);
      receiveCount = view(rowCounts(), DType.INT32, experts);
    }

    long sourceTokens() {
      return start + sourceTokens;
    }

    long ranges() {
      return start + ranges;
    }

    long rowCounts() {
      return start + rowCounts;
    }

    /** Address of the rows of a format; makes room if there is too little. */
    long rows(LowLatencyFormat format, boolean capturing) {
      long slots = experts * capacity;
      long columns = (long) experts * format.columns() * format.columnLength(capacity);
      long scales = Math.max(slots * format.scaleBytes(), format.columnDType().bytes(columns));
      long needed = align(slots * format.rowBytes()) + scales;
      DeviceMemory memory = output;
      if (memory == null || memory.bytes() < needed) {
        DeviceMemory larger = allocate(needed, capturing);
        if (memory != null) {
          outgrown.add(memory);
        }
        Arrays.fill(rowViews, null);
        Arrays.fill(scaleViews, null);
        Arrays.fill(columnViews, null);
        memory = larger;
        output = larger;
      }
      return memory.address();
    }

    /** Address of the scales of a format, after {@link #rows}. */
    long scales(LowLatencyFormat format) {
      return rows(format, false) + align(experts * capacity * format.rowBytes());
    }

    Tensor rowTensor(LowLatencyFormat format) {
      Tensor tensor = rowViews[format.index()];
      if (tensor == null) {
        tensor = view(rows(format, false), format.dtype(), experts, capacity, hidden);
        rowViews[format.index()] = tensor;
      }
      return tensor;
    }

    @Nullable Tensor scaleTensor(LowLatencyFormat format) {
      Tensor tensor = scaleViews[format.index()];
      if (tensor == null && format.scales() > 0) {
        tensor = view(scales(format), format.scaleDType(), experts, capacity, format.scales());
        scaleViews[format.index()] = tensor;
      }
      return tensor;
    }

    /** The same by columns. */
    @Nullable Tensor scaleColumnTensor(LowLatencyFormat format) {
      Tensor tensor = columnViews[format.index()];
      if (tensor == null && format.scales() > 0) {
        long length = format.columnLength(capacity);
        tensor = view(scales(format), format.columnDType(), experts, format.columns(), length);
        columnViews[format.index()] = tensor;
      }
      return tensor;
    }

    Tensor sourceInfo() {
      return sourceInfo;
    }

    Tensor layoutRange() {
      return layoutRange;
    }

    Tensor receiveCount() {
      return receiveCount;
    }

    Tensor sumTensor(int tokens) {
      Tensor tensor = sumViews[tokens];
      if (tensor == null) {
        tensor = view(start + sums, DType.BF16, tokens, hidden);
        sumViews[tokens] = tensor;
      }
      return tensor;
    }

    /** Where callers put rows for a zero-copy combine; null until it has been asked for. */
    @Nullable Tensor combineRegion() {
      return inputView;
    }

    /** The same, made if need be. */
    Tensor combineBuffer() {
      Tensor tensor = inputView;
      if (tensor == null) {
        DeviceMemory memory = allocate(experts * capacity * 2 * hidden, false);
        input = memory;
        tensor = view(memory.address(), DType.BF16, experts, capacity, hidden);
        inputView = tensor;
      }
      return tensor;
    }

    private void close() {
      if (output != null) {
        output.close();
      }
      if (input != null) {
        input.close();
      }
    }
  }

  @Override
  public void close() {
    for (Half each : halves) {
      each.close();
    }
    outgrown.forEach(DeviceMemory::close);
    fixed.close();
  }
}
