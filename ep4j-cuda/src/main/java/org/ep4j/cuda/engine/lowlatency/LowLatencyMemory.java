package org.ep4j.cuda.engine.lowlatency;

import org.ep4j.config.Layout;
import org.ep4j.cuda.backend.StepFailure;
import org.ep4j.cuda.driver.CudaDevice;
import org.ep4j.cuda.driver.DeviceMemory;
import org.ep4j.cuda.driver.ResourceStack;
import org.ep4j.engine.lowlatency.LowLatencyFormat;
import org.ep4j.engine.lowlatency.LowLatencyViews;
import org.ep4j.engine.lowlatency.OutputShape;
import org.ep4j.engine.lowlatency.ViewsByExperts;
import org.ep4j.tensor.DType;
import org.ep4j.tensor.Tensor;
import org.jspecify.annotations.Nullable;

/**
 * The low-latency memory of one rank that no peer accesses, and views of it. Memory that every
 * operation needs is allocated at open; the padded rows of a dispatch and the regions of zero-copy
 * combines on first use. Outputs exist twice and alternate. Outgrown memory is freed with the
 * buffer, because freeing waits for kernels of other ranks too.
 */
public final class LowLatencyMemory implements AutoCloseable {
  /** All memory, including outgrown memory. */
  private final ResourceStack owned = new ResourceStack();

  private final int rank;
  private final CudaDevice device;
  private final DeviceMemory fixed;
  private final OutputShape shape;
  private final LowLatencyMemoryLayout at;
  private final Half[] halves = new Half[LowLatencyMemoryLayout.HALVES];
  private long grown;

  public LowLatencyMemory(int rank, CudaDevice device, OutputShape shape) {
    this.rank = rank;
    this.device = device;
    this.shape = shape;
    at = new LowLatencyMemoryLayout(shape);
    fixed = owned.own(DeviceMemory.allocate(device, at.bytes));
    for (int i = 0; i < halves.length; i++) {
      halves[i] = new Half(fixed.address() + i * at.half);
    }
  }

  OutputShape shape() {
    return shape;
  }

  /** Bytes on the device that operations have added at their first use. */
  long grownBytes() {
    return grown;
  }

  long choiceRows(int i) {
    return fixed.address() + LowLatencyMemoryLayout.HALVES * at.half + i * at.record;
  }

  long batches(int i) {
    return choiceRows(i) + at.batches;
  }

  long choices(int i) {
    return choiceRows(i) + at.choices;
  }

  Half half(int i) {
    return halves[i];
  }

  private DeviceMemory allocate(long bytes) {
    DeviceMemory memory =
        owned.own(
            StepFailure.explained(
                rank,
                "the rows of low-latency operations",
                () -> DeviceMemory.allocate(device, bytes)));
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
      return start + at.ranges;
    }

    @Override
    public long rowCounts() {
      return start + at.rowCounts;
    }

    @Override
    public long rowChoices() {
      return start + at.rowChoices;
    }

    @Override
    public long rowWeights() {
      return start + at.rowWeights;
    }

    /** Allocates the rows of a dispatch with their scales if the memory is too small. */
    void makeRoom(Layout layout, LowLatencyFormat format) {
      long needed = LowLatencyMemoryLayout.rowBytes(shape, layout, format);
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
      return rows() + LowLatencyMemoryLayout.scalesOffset(format, rows);
    }

    Tensor sumTensor(int tokens, int hidden) {
      Tensor tensor = sumViews[tokens];
      if (tensor == null || tensor.size(1) != hidden) {
        tensor = view(start + at.sums, DType.BF16, tokens, hidden);
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
        long address = allocate(LowLatencyMemoryLayout.combineRegionBytes(shape, layout)).address();
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
