package org.ep4j.cuda.engine;

import java.lang.foreign.MemorySegment;
import java.nio.ByteBuffer;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import org.ep4j.Ep4jException;
import org.ep4j.cuda.driver.CudaDevice;
import org.ep4j.cuda.driver.CudaException;
import org.ep4j.cuda.driver.DeviceMemory;
import org.ep4j.cuda.driver.IpcMemory;
import org.ep4j.group.Group;

/**
 * The regions of all ranks as kernels of this rank see them. Ranks in one process give each other
 * addresses, ranks in several processes IPC handles.
 */
final class Peers implements AutoCloseable {
  private static final int NAME_BYTES = 64;
  private static final int MESSAGE_BYTES =
      Integer.BYTES + Long.BYTES + IpcMemory.HANDLE_BYTES + NAME_BYTES;

  /** What is mapped of other processes, and held of this one. */
  private final List<AutoCloseable> reached = new ArrayList<>();

  private final DeviceMemory table;
  private final long[] addresses;

  /** Ranks whose region lies on the device of this rank, itself included. */
  final int ranksOnDevice;

  /** Maps the regions; collective. */
  Peers(Group group, CudaDevice device, DeviceMemory region, Duration timeout) {
    byte[][] all = group.allGather(message(device, region), timeout);
    String own = name(all[group.rank()]);
    int sharing = 0;
    addresses = new long[all.length];
    boolean complete = false;
    try {
      for (int r = 0; r < all.length; r++) {
        if (name(all[r]).equals(own)) {
          sharing++;
        }
        addresses[r] =
            r == group.rank()
                ? region.address()
                : address(group, device, ByteBuffer.wrap(all[r]), r);
      }
      table = DeviceMemory.allocate(device, (long) all.length * Long.BYTES);
      complete = true;
    } finally {
      if (!complete) {
        letGo();
      }
    }
    table.copyFrom(0, MemorySegment.ofArray(addresses));
    ranksOnDevice = sharing;
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

  private long address(Group group, CudaDevice device, ByteBuffer message, int rank) {
    int ordinal = message.getInt();
    long address = message.getLong();
    if (group.inProcess()) {
      reach(device, ordinal, rank);
      reached.add(SharedRegion.of(address, rank));
      return address;
    }
    byte[] handle = new byte[IpcMemory.HANDLE_BYTES];
    message.get(handle);
    try {
      IpcMemory memory = IpcMemory.open(device, handle);
      reached.add(memory);
      return memory.address();
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
    table.copyFrom(0, MemorySegment.ofArray(addresses));
  }

  private void letGo() {
    for (AutoCloseable each : reached) {
      try {
        each.close();
      } catch (Exception e) {
        throw e instanceof RuntimeException known ? known : new IllegalStateException(e);
      }
    }
    reached.clear();
  }

  @Override
  public void close() {
    letGo();
    table.close();
  }
}
