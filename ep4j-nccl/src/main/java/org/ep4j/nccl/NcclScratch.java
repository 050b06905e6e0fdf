package org.ep4j.nccl;

import java.time.Duration;
import org.ep4j.config.BackendName;
import org.ep4j.cuda.backend.Backends;
import org.ep4j.cuda.driver.CudaDevice;
import org.ep4j.cuda.driver.DeviceMemory;
import org.ep4j.group.Group;
import org.ep4j.memory.Participants;

/** A communicator and device memory for measurements of NCCL. Used by one thread at a time. */
final class NcclScratch implements AutoCloseable {
  private final NcclBackend backend;
  private final DeviceMemory memory;
  private boolean closed;

  private NcclScratch(NcclBackend backend, DeviceMemory memory) {
    this.backend = backend;
    this.memory = memory;
  }

  /** Creates both; collective. */
  static NcclScratch open(Group group, CudaDevice device, long bytes, Duration timeout) {
    device.makeCurrent();
    NcclBackend backend =
        (NcclBackend) Backends.open(BackendName.NCCL, Participants.ofAll(group), device, timeout);
    boolean complete = false;
    try {
      NcclScratch made = new NcclScratch(backend, DeviceMemory.allocate(device, bytes));
      complete = true;
      return made;
    } finally {
      if (!complete) {
        backend.close();
      }
    }
  }

  /** Version of NCCL. */
  String version() {
    return backend.world().locations().getFirst().version();
  }

  NcclCommunicator communicator() {
    return backend.communicator();
  }

  long address() {
    return memory.address();
  }

  @Override
  public void close() {
    if (!closed) {
      closed = true;
      // Freeing would wait for a call whose peer is missing; closing ends the call.
      try {
        backend.close();
      } finally {
        memory.close();
      }
    }
  }
}
