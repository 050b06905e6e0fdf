package org.ep4j.cuda.engine;

import java.lang.System.Logger.Level;
import java.lang.foreign.MemorySegment;
import java.nio.ByteBuffer;
import java.time.Duration;
import org.ep4j.Ep4jException;
import org.ep4j.cuda.driver.CudaDevice;
import org.ep4j.cuda.driver.CudaException;
import org.ep4j.cuda.driver.DeviceMemory;
import org.ep4j.cuda.driver.IpcMemory;
import org.ep4j.engine.Nodes;
import org.ep4j.group.Group;
import org.ep4j.memory.Meeting;
import org.jspecify.annotations.Nullable;

/**
 * The regions of all ranks as kernels of this rank see them. Ranks in one process give each other
 * addresses, ranks in several processes IPC handles.
 */
final class Peers implements AutoCloseable {
  private static final System.Logger LOG = System.getLogger("org.ep4j.cuda");
  private static final int NAME_BYTES = 64;
  private static final int MESSAGE_BYTES =
      Integer.BYTES + Long.BYTES + IpcMemory.HANDLE_BYTES + NAME_BYTES;

  private final CudaDevice device;
  private final boolean inProcess;
  private final int rank;

  /** Of each other rank what keeps its region: mapped of other processes, held of this one. */
  private final @Nullable Reached[] reached;

  /** What is to take the place of that once all agree. */
  private final @Nullable Reached[] staged;

  private final DeviceMemory table;
  private final long[] addresses;

  /** A region of another rank. */
  private record Reached(long address, AutoCloseable keeper) {}

  /** Ranks whose region lies on the device of this rank, itself included. */
  final int ranksOnDevice;

  /**
   * Maps the regions; collective, with {@link #stage} on ranks to which this one comes back.
   *
   * @param meeting the ranks that have regions; the others have none here
   * @param nodes only regions of this rank's node are mapped: no others can be
   */
  Peers(Meeting meeting, Nodes nodes, CudaDevice device, DeviceMemory region, Duration timeout) {
    Group group = meeting.group();
    this.device = device;
    inProcess = group.inProcess();
    rank = meeting.rank();
    byte[][] all = group.allGather(message(device, region), timeout);
    String own = name(all[group.rank()]);
    int sharing = 0;
    reached = new Reached[meeting.ranks()];
    staged = new Reached[meeting.ranks()];
    addresses = new long[meeting.ranks()];
    boolean complete = false;
    try {
      for (int i = 0; i < all.length; i++) {
        int r = meeting.number(i);
        if (name(all[i]).equals(own)) {
          sharing++;
        }
        if (r != rank && nodes.together(r, rank)) {
          staged[r] = reach(ByteBuffer.wrap(all[i]), r);
        }
      }
      addresses[rank] = region.address();
      commit();
      table = DeviceMemory.allocate(device, (long) addresses.length * Long.BYTES);
      complete = true;
    } finally {
      if (!complete) {
        letGo();
      }
    }
    writeTable();
    ranksOnDevice = sharing;
  }

  /**
   * Maps the regions of ranks that come back, beside their old ones; collective with the
   * constructor there.
   *
   * @return empty, or why a region cannot be mapped
   */
  String stage(Meeting meeting, DeviceMemory region, Duration timeout) {
    byte[][] all = meeting.group().allGather(message(device, region), timeout);
    try {
      for (int i = 0; i < all.length; i++) {
        int r = meeting.number(i);
        if (meeting.isNew(r)) {
          staged[r] = reach(ByteBuffer.wrap(all[i]), r);
        }
      }
      return "";
    } catch (Ep4jException e) {
      return String.valueOf(e.getMessage());
    }
  }

  /** Replaces the old regions by those of {@link #stage}; called while no kernel runs. */
  void commit() {
    for (int r = 0; r < staged.length; r++) {
      Reached fresh = staged[r];
      if (fresh != null) {
        Reached old = reached[r];
        reached[r] = fresh;
        addresses[r] = fresh.address;
        staged[r] = null;
        if (old != null) {
          forget(old);
        }
      }
    }
  }

  /** Unmaps the memory of a process that is gone, whatever the driver makes of that. */
  private static void forget(Reached old) {
    try {
      close(old);
    } catch (CudaException e) {
      LOG.log(Level.DEBUG, "the memory of a process that is gone cannot be unmapped", e);
    }
  }

  /** Gives back what {@link #stage} has mapped and {@link #commit} has not taken. */
  void unstage() {
    closeAll(staged);
  }

  private static byte[] message(CudaDevice device, DeviceMemory region) {
    ByteBuffer message = ByteBuffer.allocate(MESSAGE_BYTES);
    message.putInt(device.ordinal()).putLong(region.address()).put(IpcMemory.export(region));
    // The bus address tells devices apart, whatever ordinals the processes know them by.
    byte[] name =
        device.properties().pciBusId().getBytes(java.nio.charset.StandardCharsets.US_ASCII);
    message.put(name, 0, Math.min(name.length, NAME_BYTES));
    return message.array();
  }

  private static String name(byte[] message) {
    return new String(
        message,
        MESSAGE_BYTES - NAME_BYTES,
        NAME_BYTES,
        java.nio.charset.StandardCharsets.US_ASCII);
  }

  private Reached reach(ByteBuffer message, int rank) {
    int ordinal = message.getInt();
    long address = message.getLong();
    if (inProcess) {
      reach(device, ordinal, rank);
      return new Reached(address, SharedRegion.of(address, rank));
    }
    byte[] handle = new byte[IpcMemory.HANDLE_BYTES];
    message.get(handle);
    try {
      IpcMemory memory = IpcMemory.open(device, handle);
      return new Reached(memory.address(), memory);
    } catch (CudaException e) {
      throw new Ep4jException(
          "the memory of rank " + rank + " cannot be mapped on " + device + ": " + e.getMessage(),
          e);
    }
  }

  private static void reach(CudaDevice device, int ordinal, int rank) {
    if (ordinal == device.ordinal()) {
      return;
    }
    if (!CudaDevice.canAccess(device.ordinal(), ordinal)) {
      throw new Ep4jException(
          device
              + " cannot reach the memory of device "
              + ordinal
              + " of rank "
              + rank
              + ": ranks of one node need GPUs with peer access (NVLink, or PCIe where the system"
              + " allows it)");
    }
    try (CudaDevice peer = CudaDevice.open(ordinal)) {
      device.enablePeerAccess(peer);
    }
  }

  /** Where kernels find the addresses, one a rank. */
  long table() {
    return table.address();
  }

  /** The region of a rank as this one sees it; 0 if it is gone. */
  long address(int rank) {
    return addresses[rank];
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

  private void letGo() {
    closeAll(staged);
    closeAll(reached);
  }

  private static void closeAll(@Nullable Reached[] all) {
    for (int r = 0; r < all.length; r++) {
      Reached each = all[r];
      all[r] = null;
      if (each != null) {
        close(each);
      }
    }
  }

  private static void close(Reached each) {
    try {
      each.keeper.close();
    } catch (Exception e) {
      throw e instanceof RuntimeException known ? known : new IllegalStateException(e);
    }
  }

  @Override
  public void close() {
    letGo();
    table.close();
  }
}
