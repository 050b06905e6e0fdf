package org.ep4j.cuda.engine.lowlatency;

import org.ep4j.DType;
import org.ep4j.Layout;
import org.ep4j.Tensor;
import org.ep4j.cuda.driver.CudaDevice;
import org.ep4j.cuda.driver.DeviceMemory;
import org.ep4j.cuda.driver.ResourceStack;
import org.ep4j.engine.lowlatency.LowLatencyFormat;
import org.ep4j.engine.lowlatency.LowLatencyViews;
import org.ep4j.engine.lowlatency.OutputShape;
import org.ep4j.engine.lowlatency.ViewsByExperts;
import org.jspecify.annotations.Nullable;

/**
 * The low-latency memory of one rank that no peer accesses, and views of it. Memory that every
 * operation needs is allocated at open; the padded rows of a dispatch and the regions of zero-copy
 * combines on first use. Outputs exist twice and alternate. Outgrown memory is freed with the
 * buffer, because freeing waits for kernels of other ranks too.
 */
public final class LowLatencyMemory implements AutoCloseable {
  /** The last two dispatches, and one whose combine may still be queued. */
  static final int RECORDS = 3;

  private static final int HALVES = 2;
  private static final long ALIGNMENT = 256;

  /** All memory, including outgrown memory. */
  private final ResourceStack owned = new ResourceStack();

  private final CudaDevice device;
  private final DeviceMemory fixed;
  private final OutputShape shape;
  private final long ranges;
  private final long rowCounts;
  private final long rowChoices;
  private final long rowWeights;
  private final long sums;
  private final long half;
  private final long batches;
  private final long choices;
  private final long record;
  private final Half[] halves = new Half[HALVES];
  private long grown;

  public LowLatencyMemory(CudaDevice device, OutputShape shape) {
    this.device = device;
    this.shape = shape;
    long tokens = shape.tokens();
    int ranks = shape.ranks();
    int topK = shape.topK();
    long slots = ranks * tokens;
    long lines = Math.max(1, shape.experts());
    // Offsets from the start of a half: source tokens, then these.
    ranges = align(lines * slots * Integer.BYTES);
    rowCounts = align(ranges + lines * ranks * Long.BYTES);
    rowChoices = align(rowCounts + Math.max(ranks, lines) * Integer.BYTES);
    rowWeights = align(rowChoices + slots * topK * Long.BYTES);
    sums = align(rowWeights + slots * Math.max(topK, lines) * Float.BYTES);
    half = align(sums + tokens * 2 * shape.hidden());
    // Offsets from the start of a record: rows, then these.
    batches = align(slots * topK * Integer.BYTES);
    choices = align(batches + (long) ranks * Integer.BYTES);
    record = align(choices + tokens * topK * Long.BYTES);
    fixed = owned.own(DeviceMemory.allocate(device, HALVES * half + RECORDS * record));
    for (int i = 0; i < HALVES; i++) {
      halves[i] = new Half(fixed.address() + i * half);
    }
  }

  static long align(long offset) {
    return (offset + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
  }

  OutputShape shape() {
    return shape;
  }

  /** Allocated bytes on the device. */
  long bytes() {
    return fixed.bytes() + grown;
  }

  long choiceRows(int i) {
    return fixed.address() + HALVES * half + i * record;
  }

  long batches(int i) {
    return choiceRows(i) + batches;
  }

  long choices(int i) {
    return choiceRows(i) + choices;
  }

  Half half(int i) {
    return halves[i];
  }

  private DeviceMemory allocate(long bytes) {
    DeviceMemory memory = owned.own(DeviceMemory.allocate(device, Math.max(1, bytes)));
    grown += memory.bytes();
    return memory;
  }

  /** One of the two sets of outputs. */
  final class Half implements LowLatencyViews.Outputs {
    private final long start;

    /** Of the outputs of dispatches. */
    final ViewsByExperts outputViews;

    private final @Nullable Tensor[] sumViews = new Tensor[shape.tokens() + 1];
    private @Nullable DeviceMemory output;

    /** Regions that callers fill for zero-copy combines, by layout; null before their first use. */
    private final @Nullable Tensor[] combineRegions = new Tensor[Layout.values().length];

    private Half(long start) {
      this.start = start;
      outputViews = new ViewsByExperts(this, shape);
    }

    @Override
    public Tensor view(long address, DType dtype, long... extents) {
      return Tensor.ofDevice(address, device.ordinal(), dtype, extents);
    }

    @Override
    public long sourceTokens() {
      return start;
    }

    @Override
    public long ranges() {
      return start + ranges;
    }

    @Override
    public long rowCounts() {
      return start + rowCounts;
    }

    @Override
    public long rowChoices() {
      return start + rowChoices;
    }

    @Override
    public long rowWeights() {
      return start + rowWeights;
    }

    /** Allocates the rows of a dispatch with their scales if the memory is too small. */
    void makeRoom(Layout layout, LowLatencyFormat format) {
      int groups = shape.groups(layout);
      long capacity = shape.capacity(layout);
      long columns = (long) groups * format.columns() * format.columnLength(capacity);
      long scaleBytes =
          Math.max(groups * capacity * format.scaleBytes(), format.columnDType().bytes(columns));
      long needed = scalesOffset(format, groups * capacity) + scaleBytes;
      DeviceMemory memory = output;
      if (memory == null || memory.bytes() < needed) {
        DeviceMemory larger = allocate(needed);
        outputViews.forgetRows();
        output = larger;
      }
    }

    /** Requires allocated rows. */
    @Override
    public long rows() {
      DeviceMemory memory = output;
      if (memory == null) {
        throw new IllegalStateException("rows are not allocated yet");
      }
      return memory.address();
    }

    @Override
    public long scales(LowLatencyFormat format, long rows) {
      return rows() + scalesOffset(format, rows);
    }

    private static long scalesOffset(LowLatencyFormat format, long rows) {
      return align(rows * format.rowBytes());
    }

    Tensor sumTensor(int tokens, int hidden) {
      Tensor tensor = sumViews[tokens];
      if (tensor == null || tensor.size(1) != hidden) {
        tensor = view(start + sums, DType.BF16, tokens, hidden);
        sumViews[tokens] = tensor;
      }
      return tensor;
    }

    /**
     * The region for zero-copy combines of a layout, with the longest rows; null before its first
     * use.
     */
    @Nullable Tensor combineRegion(Layout layout) {
      return combineRegions[layout.ordinal()];
    }

    /**
     * The same region with {@code wanted} groups and rows of {@code hidden} elements, allocated if
     * necessary.
     */
    Tensor makeCombineRegion(Layout layout, int wanted, int hidden) {
      Tensor region = combineRegion(layout);
      if (region == null) {
        long groups = shape.groups(layout);
        long capacity = shape.capacity(layout);
        long address = allocate(groups * capacity * 2 * shape.hidden()).address();
        region = view(address, DType.BF16, groups, capacity, shape.hidden());
        combineRegions[layout.ordinal()] = region;
      }
      return hidden == shape.hidden() && wanted == region.size(0)
          ? region
          : view(region.address(), DType.BF16, wanted, region.size(1), hidden);
    }
  }

  @Override
  public void close() {
    owned.close();
  }
}
