package org.ep4j.nccl;

import java.time.Duration;
import java.util.List;
import org.ep4j.cuda.driver.CudaDevice;
import org.ep4j.cuda.driver.CudaStream;
import org.ep4j.group.Group;

/**
 * Sends to some ranks and receives from some, grouped, with a communicator of its own: NCCL's own
 * all-to-all, for comparing with. Used by one thread at a time.
 */
public final class NcclExchange implements AutoCloseable {
  private final NcclScratch scratch;
  private final List<Integer> targets;
  private final List<Integer> sources;
  private final long most;

  private NcclExchange(
      NcclScratch scratch, List<Integer> targets, List<Integer> sources, long most) {
    this.scratch = scratch;
    this.targets = List.copyOf(targets);
    this.sources = List.copyOf(sources);
    this.most = most;
  }

  /**
   * Makes the communicator; collective.
   *
   * @param targets whom this rank sends to
   * @param sources who sends to this rank
   * @param most bytes to each of them
   * @throws org.ep4j.EngineUnavailableException on all ranks if one of them has no NCCL
   * @throws org.ep4j.ConfigurationMismatchException on all ranks if two share a GPU that may not
   */
  public static NcclExchange open(
      Group group,
      CudaDevice device,
      List<Integer> targets,
      List<Integer> sources,
      long most,
      Duration timeout) {
    long bytes = Math.max(1, most * (targets.size() + sources.size()));
    return new NcclExchange(
        NcclScratch.open(group, device, bytes, timeout), targets, sources, most);
  }

  /** Version of NCCL. */
  public String version() {
    return scratch.version();
  }

  /**
   * Enqueues one; the first waits until NCCL has connected. The device is current.
   *
   * @param bytes to each target and from each source, at most as many as it was opened for
   */
  public void enqueue(long bytes, CudaStream stream) {
    if (bytes > most) {
      throw new IllegalArgumentException(bytes + " bytes, more than " + most);
    }
    scratch
        .communicator()
        .exchange(
            scratch.address(),
            scratch.address() + most * targets.size(),
            most,
            bytes,
            targets,
            sources,
            stream.handle());
  }

  /** Frees everything; nothing is enqueued any more. */
  @Override
  public void close() {
    scratch.close();
  }
}
