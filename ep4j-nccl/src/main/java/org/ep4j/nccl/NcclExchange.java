package org.ep4j.nccl;

import java.time.Duration;
import java.util.List;
import org.ep4j.cuda.driver.CudaDevice;
import org.ep4j.cuda.driver.CudaStream;
import org.ep4j.error.ErrorCode;
import org.ep4j.error.InvalidArgumentException;
import org.ep4j.group.Group;

/**
 * Grouped sends to some ranks and receives from some ranks on a separate communicator: NCCL's own
 * all-to-all, for comparison. Used by one thread at a time.
 */
public final class NcclExchange implements AutoCloseable {
  private final NcclScratch scratch;
  private final List<Integer> targets;
  private final List<Integer> sources;
  private final long max;

  private NcclExchange(
      NcclScratch scratch, List<Integer> targets, List<Integer> sources, long max) {
    this.scratch = scratch;
    this.targets = List.copyOf(targets);
    this.sources = List.copyOf(sources);
    this.max = max;
  }

  /**
   * Creates the communicator; collective.
   *
   * @param targets ranks that this rank sends to
   * @param sources ranks that send to this rank
   * @param max largest number of bytes per peer
   * @throws org.ep4j.error.EngineUnavailableException on all ranks if one of them has no NCCL
   * @throws org.ep4j.error.ConfigurationMismatchException on all ranks if two share a GPU without
   *     permission
   */
  public static NcclExchange open(
      Group group,
      CudaDevice device,
      List<Integer> targets,
      List<Integer> sources,
      long max,
      Duration timeout) {
    long bytes = Math.max(1, max * (targets.size() + sources.size()));
    return new NcclExchange(NcclScratch.open(group, device, bytes, timeout), targets, sources, max);
  }

  /** Version of NCCL. */
  public String version() {
    return scratch.version();
  }

  /**
   * Enqueues an exchange; the first call waits until NCCL has connected. The device is current.
   *
   * @param bytes bytes to each target and from each source, at most those of {@link #open}
   */
  public void enqueue(long bytes, CudaStream stream) {
    if (bytes > max) {
      throw new InvalidArgumentException(
          ErrorCode.NCCL_EXCHANGE_SIZE,
          "bytes",
          String.valueOf(bytes),
          "at most " + max,
          "open the exchange with the largest size");
    }
    scratch
        .communicator()
        .exchange(
            scratch.address(),
            scratch.address() + max * targets.size(),
            max,
            bytes,
            targets,
            sources,
            stream.handle());
  }

  /** Closes all resources; no exchange may be enqueued afterwards. */
  @Override
  public void close() {
    scratch.close();
  }
}
