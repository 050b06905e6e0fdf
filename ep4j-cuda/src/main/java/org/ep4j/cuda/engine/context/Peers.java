package org.ep4j.cuda.engine.context;

import java.lang.System.Logger.Level;
import java.lang.foreign.MemorySegment;
import java.time.Duration;
import org.ep4j.cuda.backend.PeerRegion;
import org.ep4j.cuda.backend.SymmetricRegion;
import org.ep4j.cuda.driver.DeviceMemory;
import org.ep4j.cuda.driver.ResourceStack;
import org.ep4j.cuda.driver.calls.CudaException;
import org.ep4j.engine.world.Nodes;
import org.ep4j.error.Ep4jException;
import org.ep4j.group.GroupException;
import org.ep4j.memory.Participants;
import org.jspecify.annotations.Nullable;

/** The regions of all ranks as seen by kernels of this rank: a table of addresses. */
public final class Peers implements AutoCloseable {
  private static final System.Logger LOG = System.getLogger("org.ep4j.cuda");

  private final ResourceStack owned = new ResourceStack();
  private final Nodes nodes;
  private final SymmetricRegion region;
  private final @Nullable PeerRegion[] reached;

  /** Replacement regions until all ranks agree. */
  private final @Nullable PeerRegion[] staged;

  private final DeviceMemory table;
  private final long[] addresses;

  /**
   * Maps the regions; collective with {@link #stage} on the ranks that this rank rejoins.
   *
   * @param participants the ranks that have regions
   * @param nodes only regions of this rank's node can be mapped
   * @param table of {@link #tableBytes}; its owner closes it after this object. Allocated before,
   *     because a rank without memory must tell the others in place of taking part here
   */
  public Peers(
      Participants participants,
      Nodes nodes,
      DeviceMemory table,
      SymmetricRegion region,
      Duration timeout) {
    this.nodes = nodes;
    this.region = region;
    this.table = table;
    int ranks = participants.ranks();
    int rank = participants.rank();
    boolean[] others = new boolean[ranks];
    for (int r = 0; r < ranks; r++) {
      others[r] = r != rank && nodes.together(r, rank);
    }
    reached = new PeerRegion[ranks];
    addresses = new long[ranks];
    addresses[rank] = region.memory().address();
    boolean complete = false;
    try {
      staged = region.reach(participants, others, timeout);
      owned.own(() -> closeAll(reached));
      owned.own(this::unstage);
      commit();
      writeTable();
      complete = true;
    } finally {
      if (!complete) {
        owned.close();
      }
    }
  }

  /** Bytes of the table of a world. */
  public static long tableBytes(int ranks) {
    return (long) ranks * Long.BYTES;
  }

  /**
   * Maps the regions of returning ranks of this node next to their old ones; collective with the
   * constructor there.
   *
   * @return empty, or the reason why a region cannot be mapped
   */
  public String stage(Participants participants, Duration timeout) {
    boolean[] back = new boolean[participants.ranks()];
    for (int r = 0; r < back.length; r++) {
      back[r] = participants.isNew(r) && nodes.together(r, participants.rank());
    }
    try {
      @Nullable PeerRegion[] fresh = region.reach(participants, back, timeout);
      System.arraycopy(fresh, 0, staged, 0, fresh.length);
      return "";
    } catch (GroupException e) {
      throw e; // other ranks are not notified here
    } catch (Ep4jException e) {
      return String.valueOf(e.getMessage());
    }
  }

  /** Replaces the old regions with those of {@link #stage}; no kernel runs. */
  public void commit() {
    for (int r = 0; r < staged.length; r++) {
      PeerRegion fresh = staged[r];
      if (fresh != null) {
        PeerRegion old = reached[r];
        reached[r] = fresh;
        addresses[r] = fresh.address();
        staged[r] = null;
        if (old != null) {
          forget(old);
        }
      }
    }
  }

  /** Unmaps memory of a dead process; ignores driver errors. */
  private static void forget(PeerRegion old) {
    try {
      old.close();
    } catch (CudaException e) {
      LOG.log(Level.DEBUG, "memory of a dead process cannot be unmapped", e);
    }
  }

  /** Closes the regions that {@link #stage} mapped and {@link #commit} did not use. */
  public void unstage() {
    closeAll(staged);
  }

  /** Device address of the table of addresses, one per rank. */
  public long table() {
    return table.address();
  }

  /** The region of a rank as mapped here; 0 if the rank is dead. */
  public long address(int rank) {
    return addresses[rank];
  }

  /** Sets the address of the local memory that kernels write for a rank of another node. */
  public void setInternode(int rank, long address) {
    addresses[rank] = address;
    writeTable();
  }

  /** Removes these ranks from the table; no kernel runs. */
  public void exclude(boolean[] gone) {
    for (int r = 0; r < addresses.length; r++) {
      if (gone[r]) {
        addresses[r] = 0;
      }
    }
    writeTable();
  }

  private void writeTable() {
    table.copyFrom(0, MemorySegment.ofArray(addresses));
  }

  private static void closeAll(@Nullable PeerRegion[] all) {
    ResourceStack regions = new ResourceStack();
    for (int r = 0; r < all.length; r++) {
      PeerRegion each = all[r];
      all[r] = null;
      if (each != null) {
        regions.own(each);
      }
    }
    regions.close();
  }

  @Override
  public void close() {
    owned.close();
  }
}
