package org.ep4j.cuda.engine;

import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import org.ep4j.cuda.driver.CudaDevice;
import org.ep4j.cuda.driver.CudaStream;
import org.ep4j.cuda.driver.DeviceCopies;
import org.ep4j.cuda.driver.DeviceMemory;

/**
 * The low-latency part of this rank's memory, those of its peers, and the masks. What the host
 * reads and writes here it does while no kernel of this rank runs.
 */
final class LowLatencyPart implements AutoCloseable {
  private final CudaDevice device;
  private final LowLatencyLayout layout;
  private final DeviceMemory memory;
  private final DeviceMemory masks;
  private final HostWords words;
  private final Peers peers;
  private final int rank;
  private final int ranks;

  /** Maps the peers' parts; collective. */
  LowLatencyPart(
      org.ep4j.group.Group group,
      CudaDevice device,
      LowLatencyLayout layout,
      HostWords words,
      CudaStream stream,
      java.time.Duration timeout) {
    this.device = device;
    this.layout = layout;
    this.words = words;
    rank = group.rank();
    ranks = group.size();
    memory = DeviceMemory.allocate(device, layout.bytes);
    DeviceMemory state = null;
    Peers mapped = null;
    try {
      state = DeviceMemory.allocate(device, 2L * ranks * Long.BYTES);
      state.fill8(0, state.bytes(), (byte) 0, stream);
      clear(stream);
      // From here on all ranks have cleared their words.
      mapped = new Peers(group, device, memory, timeout);
    } finally {
      if (mapped == null) {
        if (state != null) {
          state.close();
        }
        memory.close();
      }
    }
    masks = state;
    peers = mapped;
  }

  /** Clears all words that peers write, and the numbers; nothing runs. */
  void clear(CudaStream stream) {
    memory.fill8(0, layout.headers, (byte) 0, stream);
    memory.fill8(layout.headers, layout.wordBytes, (byte) 0, stream);
    memory.fill8(layout.headers + layout.areaBytes, layout.wordBytes, (byte) 0, stream);
    stream.synchronize();
  }

  LowLatencyLayout layout() {
    return layout;
  }

  /** Where kernels find the parts. */
  long peers() {
    return peers.table();
  }

  /** Where the one of this rank lies. */
  long own() {
    return memory.address();
  }

  /** Where kernels find the masks, one word a rank. */
  long masks() {
    return masks.address();
  }

  /** Where kernels note the longest waits, one word a rank. */
  long waited() {
    return masks.address() + (long) ranks * Long.BYTES;
  }

  /** Ranks that are gone have no part. */
  void exclude(boolean[] gone) {
    peers.exclude(gone);
  }

  boolean isMasked(int peer) {
    return words.masked(peer);
  }

  void mask(int peer, boolean masked) {
    if (words.masked(peer) != masked) {
      words.setMasked(peer, masked);
      write(masks.address() + (long) peer * Long.BYTES, masked ? 1 : 0);
    }
  }

  /** The number of the last operation that a rank has sent. */
  long sent(int peer) {
    MemorySegment number = MemorySegment.ofArray(new long[1]);
    DeviceCopies.toHost(device, number, peers.address(peer) + LowLatencyLayout.SENT);
    return number.getAtIndex(ValueLayout.JAVA_LONG, 0);
  }

  /** This rank goes on with another number than its own. */
  void goOnWith(long number) {
    write(memory.address() + LowLatencyLayout.SENT, number);
    write(memory.address() + LowLatencyLayout.RECEIVED, number);
    for (int peer = 0; peer < ranks; peer++) {
      if (peers.address(peer) != 0) {
        write(peers.address(peer) + layout.received + (long) rank * Long.BYTES, number);
      }
    }
  }

  private void write(long address, long value) {
    DeviceCopies.toDevice(device, address, MemorySegment.ofArray(new long[] {value}));
  }

  @Override
  public void close() {
    peers.close();
    masks.close();
    memory.close();
  }
}
