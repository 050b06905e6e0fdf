package org.ep4j.cuda.engine;

import java.lang.System.Logger.Level;
import java.lang.foreign.MemorySegment;
import java.time.Duration;
import org.ep4j.Ep4jException;
import org.ep4j.cuda.backend.PeerRegion;
import org.ep4j.cuda.backend.SymmetricRegion;
import org.ep4j.cuda.driver.CudaDevice;
import org.ep4j.cuda.driver.CudaException;
import org.ep4j.cuda.driver.DeviceMemory;
import org.ep4j.cuda.driver.ResourceStack;
import org.ep4j.engine.Nodes;
import org.ep4j.group.GroupException;
import org.ep4j.memory.Participants;
import org.jspecify.annotations.Nullable;

/** The regions of all ranks as kernels of this rank see them: a table of addresses. */
final class Peers implements AutoCloseable {
  private static final System.Logger LOG = System.getLogger("org.ep4j.cuda");

  private final ResourceStack owned = new ResourceStack();
  private final SymmetricRegion region;
  private final @Nullable PeerRegion[] reached;

  /** What is to take the place of that once all agree. */
  private final @Nullable PeerRegion[] staged;

  private final DeviceMemory table;
  private final long[] addresses;

  /**
   * Maps the regions; collective, with {@link #stage} on ranks to which this one comes back.
   *
   * @param meeting the ranks that have regions; the others have none here
   * @param nodes only regions of this rank's node are mapped: no others can be
   */
  Peers(
      Participants meeting,
      Nodes nodes,
      CudaDevice device,
      SymmetricRegion region,
      Duration timeout) {
    this.region = region;
    int ranks = meeting.ranks();
    int rank = meeting.rank();
    boolean[] others = new boolean[ranks];
    for (int r = 0; r < ranks; r++) {
      others[r] = r != rank && nodes.together(r, rank);
    }
    reached = new PeerRegion[ranks];
    addresses = new long[ranks];
    addresses[rank] = region.memory().address();
    boolean complete = false;
    try {
      table = owned.own(DeviceMemory.allocate(device, (long) ranks * Long.BYTES));
      staged = region.reach(meeting, others, timeout);
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

  /**
   * Maps the regions of ranks that come back, beside their old ones; collective with the
   * constructor there.
   *
   * @return empty, or why a region cannot be mapped
   */
  String stage(Participants meeting, Duration timeout) {
    boolean[] back = new boolean[meeting.ranks()];
    for (int r = 0; r < back.length; r++) {
      back[r] = meeting.isNew(r);
    }
    try {
      @Nullable PeerRegion[] fresh = region.reach(meeting, back, timeout);
      System.arraycopy(fresh, 0, staged, 0, fresh.length);
      return "";
    } catch (GroupException e) {
      throw e; // the others do not hear of it here
    } catch (Ep4jException e) {
      return String.valueOf(e.getMessage());
    }
  }

  /** Replaces the old regions by those of {@link #stage}; called while no kernel runs. */
  void commit() {
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

  /** Unmaps the memory of a process that is gone, whatever the driver makes of that. */
  private static void forget(PeerRegion old) {
    try {
      old.close();
    } catch (CudaException e) {
      LOG.log(Level.DEBUG, "the memory of a process that is gone cannot be unmapped", e);
    }
  }

  /** Gives back what {@link #stage} has mapped and {@link #commit} has not taken. */
  void unstage() {
    closeAll(staged);
  }

  /** Where kernels find the addresses, one a rank. */
  long table() {
    return table.address();
  }

  /** The region of a rank as this one sees it; 0 if it is gone. */
  long address(int rank) {
    return addresses[rank];
  }

  /** Where kernels find, instead of a region, what they write for a rank of another node. */
  void setInternode(int rank, long address) {
    addresses[rank] = address;
    writeTable();
  }

  /** From now on kernels leave these ranks alone; called while none runs. */
  void exclude(boolean[] gone) {
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
