package org.ep4j.cuda.engine.lowlatency;

import org.ep4j.BufferConfig;
import org.ep4j.DType;
import org.ep4j.ErrorCode;
import org.ep4j.IllegalUseException;
import org.ep4j.Tensor;
import org.ep4j.cuda.driver.CudaDevice;
import org.ep4j.cuda.driver.DeviceMemory;
import org.ep4j.cuda.driver.ResourceStack;
import org.ep4j.engine.Limits;
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
  private final int hidden;
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

  /** Dimensions of the groups of rows: {@code experts} are this rank's. */
  record Shape(int ranks, int experts, long tokens, int hidden, int topK) {
    /** Groups of rows. */
    int groups(boolean rankMajor) {
      return rankMajor ? ranks : experts;
    }

    /** Capacity of a group in rows. */
    long capacity(boolean rankMajor) {
      return rankMajor ? tokens : ranks * tokens;
    }
  }

  public LowLatencyMemory(CudaDevice device, BufferConfig config, int ranks, int localExperts) {
    this.device = device;
    hidden = config.hidden();
    long tokens = Limits.lowLatencyTokens(config);
    Shape shape = new Shape(ranks, localExperts, tokens, hidden, config.topK());
    long slots = ranks * tokens;
    long lines = Math.max(1, localExperts);
    // Offsets from the start of a half: source tokens, then these.
    ranges = align(lines * slots * Integer.BYTES);
    rowCounts = align(ranges + lines * ranks * Long.BYTES);
    rowChoices = align(rowCounts + Math.max(ranks, lines) * Integer.BYTES);
    rowWeights = align(rowChoices + slots * config.topK() * Long.BYTES);
    sums = align(rowWeights + slots * config.topK() * Float.BYTES);
    half = align(sums + tokens * 2 * hidden);
    // Offsets from the start of a record: rows, then these.
    batches = align(slots * config.topK() * Integer.BYTES);
    choices = align(batches + (long) ranks * Integer.BYTES);
    record = align(choices + tokens * config.topK() * Long.BYTES);
    fixed = owned.own(DeviceMemory.allocate(device, HALVES * half + RECORDS * record));
    for (int i = 0; i < HALVES; i++) {
      halves[i] = new Half(fixed.address() + i * half, shape);
    }
  }

  static long align(long offset) {
    return (offset + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
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

  private DeviceMemory allocate(long bytes, boolean capturing) {
    if (capturing) {
      throw new IllegalUseException(
          ErrorCode.CUDA_CAPTURE_ALLOCATES,
          "memory of "
              + bytes
              + " bytes is allocated by the first low-latency operation of its kind, which is"
              + " impossible while a graph is captured: run the same operations twice before"
              + " capturing them");
    }
    DeviceMemory memory = owned.own(DeviceMemory.allocate(device, Math.max(1, bytes)));
    grown += memory.bytes();
    return memory;
  }

  /** One of the two sets of outputs. */
  final class Half {
    private final long start;
    private final LowLatencyViews expertMajor;
    private final LowLatencyViews rankMajor;
    private final @Nullable Tensor[] sumViews;
    private @Nullable DeviceMemory output;

    private Half(long start, Shape shape) {
      this.start = start;
      sumViews = new Tensor[(int) shape.tokens() + 1];
      expertMajor = new LowLatencyViews(this, false, shape, device.ordinal());
      rankMajor = new LowLatencyViews(this, true, shape, device.ordinal());
    }

    LowLatencyViews views(boolean asRankMajor) {
      return asRankMajor ? rankMajor : expertMajor;
    }

    long sourceTokens() {
      return start;
    }

    long ranges() {
      return start + ranges;
    }

    long rowCounts() {
      return start + rowCounts;
    }

    long rowChoices() {
      return start + rowChoices;
    }

    long rowWeights() {
      return start + rowWeights;
    }

    /** Allocates rows with their scales if the memory is too small. */
    void makeRoom(long needed, boolean capturing) {
      DeviceMemory memory = output;
      if (memory == null || memory.bytes() < needed) {
        DeviceMemory larger = allocate(needed, capturing);
        expertMajor.forgetRows();
        rankMajor.forgetRows();
        output = larger;
      }
    }

    /** Start of the rows; requires allocated rows. */
    long rows() {
      DeviceMemory memory = output;
      if (memory == null) {
        throw new IllegalStateException("rows are not allocated yet");
      }
      return memory.address();
    }

    Tensor sumTensor(int tokens) {
      Tensor tensor = sumViews[tokens];
      if (tensor == null) {
        tensor = Tensor.ofDevice(start + sums, device.ordinal(), DType.BF16, tokens, hidden);
        sumViews[tokens] = tensor;
      }
      return tensor;
    }

    /** Allocates the memory that callers fill before a zero-copy combine. */
    long makeCombineRegion(long bytes) {
      return allocate(bytes, false).address();
    }
  }

  @Override
  public void close() {
    owned.close();
  }
}
