package org.ep4j.cuda.driver;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import org.ep4j.cuda.driver.calls.CudaDriver;
import org.ep4j.cuda.driver.calls.DriverConstants;
import org.ep4j.cuda.driver.calls.MemoryCalls;
import org.ep4j.error.ErrorCode;
import org.ep4j.error.IllegalUseException;

/** Reads {@link PointerAttributes} repeatedly without allocation. One thread at a time. */
public final class PointerReader implements AutoCloseable {
  private static final int COUNT = 5;

  private final Arena arena;
  private final long attributes;
  private final long targets;
  private final MemorySegment values;
  private boolean closed;

  private PointerReader() {
    this.arena = Arena.ofShared();
    this.attributes =
        arena
            .allocateFrom(
                ValueLayout.JAVA_INT,
                DriverConstants.CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                DriverConstants.CU_POINTER_ATTRIBUTE_IS_MANAGED,
                DriverConstants.CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
                DriverConstants.CU_POINTER_ATTRIBUTE_RANGE_START_ADDR,
                DriverConstants.CU_POINTER_ATTRIBUTE_RANGE_SIZE)
            .address();
    this.values = arena.allocate(ValueLayout.JAVA_LONG, COUNT);
    MemorySegment table = arena.allocate(ValueLayout.JAVA_LONG, COUNT);
    for (int i = 0; i < COUNT; i++) {
      table.setAtIndex(ValueLayout.JAVA_LONG, i, values.address() + (long) i * Long.BYTES);
    }
    this.targets = table.address();
  }

  /** A reader. */
  public static PointerReader create() {
    CudaDriver.require();
    return new PointerReader();
  }

  /** Reads the attributes of {@code address}; the other methods return them. */
  public void read(long address) {
    if (closed) {
      throw new IllegalUseException(
          ErrorCode.CUDA_CLOSED, "the pointer reader is closed: create a new one");
    }
    values.fill((byte) 0); // the driver does not write attributes that do not apply
    MemoryCalls.pointerAttributes(COUNT, attributes, targets, address);
  }

  /** Kind of memory. */
  public PointerAttributes.Type type() {
    return PointerAttributes.Type.of(values.get(ValueLayout.JAVA_INT, 0));
  }

  /** Whether the driver migrates the memory between host and device. */
  public boolean managed() {
    return values.get(ValueLayout.JAVA_BYTE, Long.BYTES) != 0;
  }

  /** Ordinal of the owning device, -1 for memory that the driver does not know. */
  public int device() {
    return type() == PointerAttributes.Type.UNKNOWN
        ? -1
        : values.get(ValueLayout.JAVA_INT, 2 * Long.BYTES);
  }

  /** First byte of the allocation. */
  public long rangeStart() {
    return values.get(ValueLayout.JAVA_LONG, 3 * Long.BYTES);
  }

  /** Size of the allocation. */
  public long rangeBytes() {
    return values.get(ValueLayout.JAVA_LONG, 4 * Long.BYTES);
  }

  /** Frees the reader. */
  @Override
  public synchronized void close() {
    if (!closed) {
      closed = true;
      arena.close();
    }
  }
}
