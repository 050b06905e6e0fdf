package org.ep4j.conformance.round;

import java.time.Duration;
import org.ep4j.Dispatch;
import org.ep4j.ExpertBuffer;
import org.ep4j.config.BufferConfig;
import org.ep4j.engine.Devices;
import org.ep4j.group.Group;
import org.ep4j.routing.Routing;
import org.ep4j.tensor.DType;
import org.ep4j.tensor.Tensor;
import org.jspecify.annotations.Nullable;

/**
 * Memory on the device of one rank, for tensors that live as long as a step; empty if the engine
 * works on the host. Allocated once and reused: allocating and freeing may wait for a whole device,
 * and so for the kernels of another rank that waits for this one.
 */
public final class DeviceArena implements AutoCloseable {
  private static final Duration TIMEOUT = Duration.ofMinutes(1);
  private static final long BYTES = 64L << 20;
  private static final long ALIGNMENT = 16;
  private static final int HIDDEN = 128;

  private final Group group;
  private final int device;
  private final long address;
  private long used;
  private boolean closed;

  private DeviceArena(Group group, int device) {
    this.group = group;
    this.device = device;
    this.address = device < 0 ? 0 : Devices.access(device).allocate(device, BYTES);
  }

  /** Memory on the device that {@code engine} assigns to this rank; collective. */
  public static DeviceArena open(Group group, String engine) {
    int device = deviceOf(group, engine);
    group.barrier(TIMEOUT);
    DeviceArena deviceArena = new DeviceArena(group, device);
    group.barrier(TIMEOUT);
    return deviceArena;
  }

  /** Device of the engine's results, -1 for the host. */
  private static int deviceOf(Group group, String engine) {
    BufferConfig config =
        BufferConfig.builder()
            .hidden(HIDDEN)
            .topK(1)
            .experts(group.size())
            .highThroughput(1)
            .engine(engine)
            .build();
    try (ExpertBuffer buffer = ExpertBuffer.open(group, config)) {
      Routing routing = Routing.of(Tensor.of(new long[] {group.rank()}, 1, 1));
      Dispatch dispatch = buffer.dispatch(Tensor.ofBf16(new short[HIDDEN], 1, HIDDEN), routing);
      int device = dispatch.x().device();
      dispatch.handle().close();
      return device;
    }
  }

  /** Whether there is device memory: whether the engine works on devices. */
  boolean exists() {
    return device >= 0;
  }

  /** A tensor with undefined content, or null if no memory is left for it. */
  @Nullable Tensor tensor(DType dtype, long... shape) {
    long elements = 1;
    for (long extent : shape) {
      elements *= extent;
    }
    long bytes = (dtype.bytes(elements) + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    if (device < 0 || bytes > BYTES - used) {
      return null;
    }
    long at = address + used;
    used += bytes;
    return Tensor.ofDevice(at, device, dtype, shape);
  }

  /** Current allocation mark; {@link #release} frees later allocations. */
  public long mark() {
    return used;
  }

  /** Frees all allocations since {@code mark}. */
  public void release(long mark) {
    used = mark;
  }

  /** Waits until no rank is inside an operation; collective, before the end. */
  public void settle() {
    group.barrier(TIMEOUT);
  }

  /** Frees the memory. */
  @Override
  public void close() {
    if (device >= 0 && !closed) {
      closed = true;
      Devices.access(device).free(device, address);
    }
  }
}
