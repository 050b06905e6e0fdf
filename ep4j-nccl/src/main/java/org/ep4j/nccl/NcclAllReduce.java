package org.ep4j.nccl;

import java.time.Duration;
import org.ep4j.cuda.driver.CudaDevice;
import org.ep4j.cuda.driver.CudaStream;
import org.ep4j.group.Group;

/**
 * All-reduces of float32 with a communicator of their own, as training or tensor parallelism would
 * run them beside ep4j: for measuring what both cost each other. Used by one thread at a time.
 */
public final class NcclAllReduce implements AutoCloseable {
  private final NcclScratch scratch;
  private final long floats;

  private NcclAllReduce(NcclScratch scratch, long floats) {
    this.scratch = scratch;
    this.floats = floats;
  }

  /**
   * Makes the communicator; collective.
   *
   * @param floats of each all-reduce, the same on all ranks
   * @throws org.ep4j.EngineUnavailableException on all ranks if one of them has no NCCL
   */
  public static NcclAllReduce open(Group group, CudaDevice device, long floats, Duration timeout) {
    return new NcclAllReduce(
        NcclScratch.open(group, device, floats * Float.BYTES, timeout), floats);
  }

  /** Version of NCCL. */
  public String version() {
    return scratch.version();
  }

  /** Enqueues one; the first waits until NCCL has connected. The device is current. */
  public void enqueue(CudaStream stream) {
    scratch.communicator().allReduce(scratch.address(), floats, stream.handle());
  }

  /** Frees everything; nothing is enqueued any more. */
  @Override
  public void close() {
    scratch.close();
  }
}
