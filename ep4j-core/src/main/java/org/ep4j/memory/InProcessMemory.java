package org.ep4j.memory;

import java.nio.ByteBuffer;
import java.time.Duration;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import org.ep4j.group.Group;

/**
 * Symmetric memory of thread-ranks: anonymous memory of this process.
 *
 * <p>A rank's block is unmapped when every rank that mapped it has closed, so that a peer which is
 * still copying never loses the ground under its feet.
 */
final class InProcessMemory implements SymmetricMemory {
  /** Blocks by address; the count is the number of ranks that have not closed. */
  private static final Map<Long, AtomicInteger> USERS = new ConcurrentHashMap<>();

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
    // If the exchange fails some peers may have learnt the address, so the block stays mapped: an
    // address range without touched pages, given up together with the group.
    byte[][] all = group.allGather(ByteBuffer.allocate(8).putLong(own).array(), timeout);
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

  /** Never called: the group takes no thread in again. */
  @Override
  public void readmit(Participants participants, Duration timeout) {
    throw new UnsupportedOperationException("threads do not come back");
  }

  /**
   * Nothing is done: addresses mean the same to all threads of a process. A thread is lost when it
   * says so, not when it is silent.
   */
  @Override
  public void leave(Participants participants, boolean leaves, Duration timeout) {}

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
