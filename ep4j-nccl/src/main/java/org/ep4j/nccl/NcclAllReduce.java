package org.ep4j.nccl;

import java.time.Duration;
import org.ep4j.cuda.backend.Backends;
import org.ep4j.cuda.driver.CudaDevice;
import org.ep4j.cuda.driver.CudaStream;
import org.ep4j.cuda.driver.DeviceMemory;
import org.ep4j.group.Group;
import org.ep4j.memory.Meeting;

/**
 * All-reduces of float32 with a communicator of their own, as training or tensor parallelism would
 * run them beside ep4j: for measuring what both cost each other. Used by one thread at a time.
 */
public final class NcclAllReduce implements AutoCloseable {
  private final NcclBackend backend;
  private final DeviceMemory memory;
  private final long floats;
  private boolean closed;

  private NcclAllReduce(NcclBackend backend, DeviceMemory memory, long floats) {
    this.backend = backend;
    this.memory = memory;
    this.floats = floats;
  }

  /**
   * Makes the communicator; collective.
   *
   * @param floats of each all-reduce, the same on all ranks
   * @throws org.ep4j.EngineUnavailableException on all ranks if one of them has no NCCL
   */
  public static NcclAllReduce open(Group group, CudaDevice device, long floats, Duration timeout) {
    device.makeCurrent();
    NcclBackend backend =
        (NcclBackend) Backends.open("nccl", Meeting.ofAll(group), device, timeout);
    boolean complete = false;
    try {
      NcclAllReduce made =
          new NcclAllReduce(backend, DeviceMemory.allocate(device, floats * Float.BYTES), floats);
      complete = true;
      return made;
    } finally {
      if (!complete) {
        backend.close();
      }
    }
  }

  /** Version of NCCL. */
  public String version() {
    return backend.world().seats().getFirst().version();
  }

  /** Enqueues one; the first waits until NCCL has connected. The device is current. */
  public void enqueue(CudaStream stream) {
    backend.communicator().allReduce(memory.address(), floats, stream.handle());
  }

  /** Frees everything; nothing is enqueued any more. */
  @Override
  public void close() {
    if (!closed) {
      closed = true;
      // Freeing would wait for an all-reduce that lacks another rank; closing ends it.
      backend.close();
      memory.close();
    }
  }
}
