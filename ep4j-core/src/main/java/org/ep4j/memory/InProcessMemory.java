package org.ep4j.memory;

import java.nio.ByteBuffer;
import java.time.Duration;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import org.ep4j.group.Group;

/**
 * Symmetric memory of thread ranks: anonymous memory of this process.
 *
 * <p>A rank's block is unmapped when every rank that mapped it has closed, so a peer that is still
 * copying never accesses unmapped memory.
 */
final class InProcessMemory implements SymmetricMemory {
  /** Number of ranks that have not closed, by block address. */
  static final Map<Long, AtomicInteger> USERS = new ConcurrentHashMap<>();

  private final long bytes;
  private final long[] addresses;
  private final AtomicBoolean closed = new AtomicBoolean();

  private InProcessMemory(long bytes, long[] addresses) {
    this.bytes = bytes;
    this.addresses = addresses;
  }

  static InProcessMemory allocate(Group group, int first, int end, long bytes, Duration timeout) {
    long own = Libc.mapAnonymous(bytes);
    Libc.preferHugePages(own, bytes);
    USERS.put(own, new AtomicInteger(end - first));
    byte[][] all;
    boolean exchanged = false;
    try {
      all = group.allGather(ByteBuffer.allocate(8).putLong(own).array(), timeout);
      exchanged = true;
    } finally {
      if (!exchanged) {
        // Some peers may know the address, so the block stays mapped. It costs an address range
        // without touched pages.
        USERS.remove(own);
      }
    }
    long[] addresses = new long[group.size()];
    for (int r = first; r < end; r++) {
      addresses[r] = ByteBuffer.wrap(all[r]).getLong();
    }
    return new InProcessMemory(bytes, addresses);
  }

  @Override
  public long bytes() {
    return bytes;
  }

  @Override
  public long address(int rank) {
    return addresses[rank];
  }

  /** Never called: thread ranks cannot be readmitted. */
  @Override
  public void readmit(Participants participants, Duration timeout) {
    throw new UnsupportedOperationException("thread ranks cannot be readmitted");
  }

  /**
   * No action: addresses are valid for all threads of a process. A thread is lost when it reports
   * so, not when it is silent.
   */
  @Override
  public void leave(Participants participants, boolean leaves, Duration timeout) {}

  /** No action: anonymous memory is limited by the system, which does not report its lack. */
  @Override
  public void require(long start, long end) {}

  @Override
  public boolean sameAddressSpace() {
    return true;
  }

  @Override
  public void close() {
    if (!closed.compareAndSet(false, true)) {
      return;
    }
    for (long address : addresses) {
      AtomicInteger users = USERS.get(address);
      if (users != null && users.decrementAndGet() == 0) {
        USERS.remove(address);
        Libc.unmap(address, bytes);
      }
    }
  }
}
