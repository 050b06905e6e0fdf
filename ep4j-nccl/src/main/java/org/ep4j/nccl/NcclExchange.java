package org.ep4j.nccl;

import java.time.Duration;
import java.util.List;
import org.ep4j.cuda.backend.Backends;
import org.ep4j.cuda.driver.CudaDevice;
import org.ep4j.cuda.driver.CudaStream;
import org.ep4j.cuda.driver.DeviceMemory;
import org.ep4j.group.Group;
import org.ep4j.memory.Meeting;

/**
 * Sends to some ranks and receives from some, grouped, with a communicator of its own: NCCL's own
 * all-to-all, for comparing with. Used by one thread at a time.
 */
public final class NcclExchange implements AutoCloseable {
  private final NcclBackend backend;
  private final DeviceMemory memory;
  private final List<Integer> targets;
  private final List<Integer> sources;
  private final long most;
  private boolean closed;

  private NcclExchange(
      NcclBackend backend,
      DeviceMemory memory,
      List<Integer> targets,
      List<Integer> sources,
      long most) {
    this.backend = backend;
    this.memory = memory;
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
   * @throws org.ep4j.ConfigurationMismatchException on all ranks if two share a GPU
   */
  public static NcclExchange open(
      Group group,
      CudaDevice device,
      List<Integer> targets,
      List<Integer> sources,
      long most,
      Duration timeout) {
    device.makeCurrent();
    NcclBackend backend =
        (NcclBackend) Backends.open("nccl", Meeting.ofAll(group), device, timeout);
    boolean complete = false;
    try {
      long bytes = Math.max(1, most * (targets.size() + sources.size()));
      DeviceMemory memory = DeviceMemory.allocate(device, bytes);
      NcclExchange made = new NcclExchange(backend, memory, targets, sources, most);
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

  /**
   * Enqueues one; the first waits until NCCL has connected. The device is current.
   *
   * @param bytes to each target and from each source, at most as many as it was opened for
   */
  public void enqueue(long bytes, CudaStream stream) {
    if (bytes > most) {
      throw new IllegalArgumentException(bytes + " bytes, more than " + most);
    }
    backend
        .communicator()
        .exchange(
            memory.address(),
            memory.address() + most * targets.size(),
            most,
            bytes,
            targets,
            sources,
            stream.handle());
  }

  /** Frees everything; nothing is enqueued any more. */
  @Override
  public void close() {
    if (!closed) {
      closed = true;
      // Freeing would wait for an exchange that lacks another rank; closing ends it.
      backend.close();
      memory.close();
    }
  }
}
