package org.ep4j.cuda.engine.failure;

import java.lang.invoke.VarHandle;
import java.time.Duration;
import org.ep4j.engine.Operation;
import org.ep4j.engine.OperationLayout;
import org.ep4j.engine.world.Nodes;
import org.ep4j.error.ConfigurationMismatchException;
import org.ep4j.group.Group;
import org.ep4j.memory.MemoryPlan;
import org.ep4j.memory.NativeMemory;
import org.ep4j.memory.Participants;
import org.ep4j.memory.SymmetricMemory;
import org.jspecify.annotations.Nullable;

/**
 * The latest calls of each rank, in host memory that the ranks of a node on one host share. A
 * kernel whose wait fails knows only the missing rank; this log shows which operation each rank
 * called.
 *
 * <p>Protocol: each rank writes only its own entries, after it has enqueued an operation on the
 * GPU. Call n since the last reset goes to entry n modulo {@link #ENTRIES}. The number is 0 while
 * the rest of the entry is written, then n with release. Peers read with acquire, and only after a
 * wait has failed; no wait depends on these words. A reset clears the calls of a rank before its
 * final barrier, so that all ranks count from 1 again.
 *
 * <p>Behind the entries: {@code closed}, 1 once the rank has closed its buffer and so enters no
 * further operation. It writes the word with release after its last kernel has ended; what that
 * kernel has written to peers is then visible to a reader of the word, with acquire. Read by ranks
 * whose wait does not end.
 */
public final class CallLog implements AutoCloseable {
  /** Entries per rank: more calls than a rank enqueues ahead of a wait. */
  static final int ENTRIES = 32;

  /** Whole cache lines, so that ranks do not share one. */
  private static final long ENTRY_BYTES = Math.ceilDiv(OperationLayout.BYTES, 64L) * 64;

  private static final long CLOSED = ENTRIES * ENTRY_BYTES;

  /** Memory of a rank. */
  public static final long BYTES = CLOSED + 64;

  private static final MemoryPlan PLAN = MemoryPlan.whole(BYTES);

  private static final long NUMBER = OperationLayout.EPOCH * 8L;

  private final SymmetricMemory memory;
  private final int rank;

  /** First rank of this node on this host: the calls of other ranks are not visible. */
  private final int first;

  private final int end;
  private final Operation mine = new Operation();
  private long calls;

  private CallLog(SymmetricMemory memory, int rank, int first, int end) {
    this.memory = memory;
    this.rank = rank;
    this.first = first;
    this.end = end;
  }

  /** Opens the memory on all ranks; collective. */
  public static CallLog open(Group group, Nodes nodes, Duration timeout) {
    return of(
        group.rank(),
        nodes,
        (first, end) -> SymmetricMemory.allocate(group, first, end, PLAN, timeout));
  }

  /** Opens the memory on a returning rank; collective with {@link #readmit}. */
  public static CallLog rejoin(Participants participants, Nodes nodes, Duration timeout) {
    return of(
        participants.rank(),
        nodes,
        (first, end) -> SymmetricMemory.rejoin(participants, first, end, PLAN, timeout));
  }

  /** Memory of the ranks from {@code first} to {@code end}. */
  private interface Allocation {
    SymmetricMemory of(int first, int end);
  }

  private static CallLog of(int rank, Nodes nodes, Allocation allocation) {
    int first = nodes.firstOnHost(rank);
    int end = nodes.endOnHost(rank);
    return new CallLog(allocation.of(first, end), rank, first, end);
  }

  /** Maps the memory of returning ranks. */
  public void readmit(Participants participants, Duration timeout) {
    memory.readmit(participants, timeout);
  }

  private long entry(int of, long slot) {
    return memory.address(of) + slot * ENTRY_BYTES;
  }

  /** Records a call of this rank and returns its number. Allocates nothing. */
  public long add(Operation called) {
    calls++;
    long at = entry(rank, calls % ENTRIES);
    NativeMemory.putLong(at + NUMBER, 0);
    VarHandle.storeStoreFence();
    called.write(at, 0);
    NativeMemory.putLongRelease(at + NUMBER, calls);
    return calls;
  }

  /** Tells the ranks that share the log that this rank enters no further operation. */
  public void publishClosed() {
    NativeMemory.putLongRelease(memory.address(rank) + CLOSED, 1);
  }

  /** Whether a rank that shares the log has closed its buffer. */
  boolean isClosed(int peer) {
    return peer >= first
        && peer < end
        && NativeMemory.getLongAcquire(memory.address(peer) + CLOSED) != 0;
  }

  /** Clears all calls of this rank; no operation runs. */
  public void clear() {
    calls = 0;
    for (int i = 0; i < ENTRIES; i++) {
      NativeMemory.putLongRelease(entry(rank, i) + NUMBER, 0);
    }
  }

  /**
   * The earliest call that differs between this rank and another; null if none is known. Any
   * thread, one at a time.
   *
   * @param excluded ranks to skip
   */
  @Nullable ConfigurationMismatchException difference(boolean[] excluded) {
    long earliest = Long.MAX_VALUE;
    ConfigurationMismatchException found = null;
    for (int slot = 0; slot < ENTRIES; slot++) {
      long number = NativeMemory.getLongAcquire(entry(rank, slot) + NUMBER);
      for (int peer = first; peer < end && number > 0 && number < earliest; peer++) {
        long at = entry(peer, slot);
        if (peer != rank && !excluded[peer] && isCall(at, number)) {
          mine.read(entry(rank, slot));
          ConfigurationMismatchException difference = mine.difference(at, peer, rank);
          // The compared entry is valid only if its number has not changed meanwhile.
          VarHandle.acquireFence();
          if (difference != null && isCall(at, number)) {
            earliest = number;
            found = difference;
          }
        }
      }
    }
    return found;
  }

  /**
   * The rank with the fewest calls as far as known; this rank if no other has fewer. Any thread.
   *
   * @param excluded ranks to skip
   */
  int furthestBehind(boolean[] excluded) {
    int furthestBehind = rank;
    for (int peer = first; peer < end; peer++) {
      if (!excluded[peer] && latest(peer) < latest(furthestBehind)) {
        furthestBehind = peer;
      }
    }
    return furthestBehind;
  }

  /** Number of a rank's last call, or of the previous call while the last one is being written. */
  private long latest(int of) {
    long latest = 0;
    for (int slot = 0; slot < ENTRIES; slot++) {
      latest = Math.max(latest, NativeMemory.getLongAcquire(entry(of, slot) + NUMBER));
    }
    return latest;
  }

  private static boolean isCall(long entry, long number) {
    return NativeMemory.getLongAcquire(entry + NUMBER) == number;
  }

  @Override
  public void close() {
    memory.close();
  }
}
