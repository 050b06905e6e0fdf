package org.ep4j.nccl;

import java.time.Duration;
import org.ep4j.cuda.driver.CudaDevice;
import org.ep4j.cuda.driver.CudaStream;
import org.ep4j.group.Group;

/**
 * All-reduces of float32 on a separate communicator, as training or tensor parallelism would run
 * them next to ep4j: for measuring the mutual slowdown. Used by one thread at a time.
 */
public final class NcclAllReduce implements AutoCloseable {
  private final NcclScratch scratch;
  private final long floats;

  private NcclAllReduce(NcclScratch scratch, long floats) {
    this.scratch = scratch;
    this.floats = floats;
  }

  /**
   * Creates the communicator; collective.
   *
   * @param floats floats of each all-reduce, equal on all ranks
   * @throws org.ep4j.error.EngineUnavailableException on all ranks if one of them has no NCCL
   */
  public static NcclAllReduce open(Group group, CudaDevice device, long floats, Duration timeout) {
    return new NcclAllReduce(
        NcclScratch.open(group, device, floats * Float.BYTES, timeout), floats);
  }

  /** Version of NCCL. */
  public String version() {
    return scratch.version();
  }

  /**
   * Enqueues an all-reduce; the first call waits until NCCL has connected. The device is current.
   */
  public void enqueue(CudaStream stream) {
    scratch.communicator().allReduce(scratch.address(), floats, stream.handle());
  }

  /** Closes all resources; no all-reduce may be enqueued afterwards. */
  @Override
  public void close() {
    scratch.close();
  }
}
