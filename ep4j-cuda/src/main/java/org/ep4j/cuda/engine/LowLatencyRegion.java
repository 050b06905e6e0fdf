package org.ep4j.cuda.engine;

import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import org.ep4j.EngineUnavailableException;
import org.ep4j.cuda.backend.SymmetricRegion;
import org.ep4j.cuda.driver.CudaDevice;
import org.ep4j.cuda.driver.CudaStream;
import org.ep4j.cuda.driver.DeviceCopies;
import org.ep4j.cuda.driver.DeviceMemory;
import org.ep4j.cuda.driver.ResourceStack;
import org.ep4j.cuda.far.InternodeConnection;
import org.ep4j.engine.Nodes;
import org.ep4j.memory.Participants;
import org.jspecify.annotations.Nullable;

/**
 * The low-latency part of this rank's memory, those of its peers, and the masks. What the host
 * reads and writes here it does while no kernel of this rank runs.
 */
final class LowLatencyRegion implements AutoCloseable {
  private final ResourceStack owned = new ResourceStack();
  private final CudaDevice device;
  private final LowLatencyLayout layout;
  private final DeviceMemory memory;
  private final DeviceMemory masks;
  private final HostWords words;
  private final Peers peers;

  /** The way to ranks of other nodes; null if there are none. */
  private final @Nullable InternodeConnection internode;

  /** How kernels reach ranks of other nodes if a wire carries their rows; else null. */
  private final @Nullable LowLatencyPuts puts;

  private final int rank;
  private final int ranks;
  private final boolean llPackets;

  /**
   * Maps the peers' parts; collective.
   *
   * @param region of this rank; its owner closes it after this
   * @param linked whether rows of this rank may travel as lines: where that is asked for and, as
   *     far as it knows, NVLink joins it with all others
   * @param internode the way to ranks of other nodes; null if there are none
   */
  LowLatencyRegion(
      Participants meeting,
      Nodes nodes,
      boolean linked,
      SymmetricRegion region,
      @Nullable InternodeConnection internode,
      CudaDevice device,
      LowLatencyLayout layout,
      HostWords words,
      CudaStream stream,
      java.time.Duration timeout) {
    this.internode = internode;
    this.device = device;
    this.layout = layout;
    this.words = words;
    rank = meeting.rank();
    ranks = meeting.ranks();
    memory = region.memory();
    boolean complete = false;
    try {
      masks =
          owned.own(DeviceMemory.allocate(device, 3L * ranks * Long.BYTES + internodeStateBytes()));
      masks.fill8(0, masks.bytes(), (byte) 0, stream);
      clearWords(stream);
      setLlPackets(linked);
      // From here on all ranks have cleared their words.
      peers = owned.own(new Peers(meeting, nodes, device, region, timeout));
      puts =
          internode != null && internode.puts()
              ? owned.own(new LowLatencyPuts(device, internode, layout, ranks))
              : null;
      for (int r = 0; internode != null && r < ranks; r++) {
        if (!nodes.together(r, rank)) {
          peers.setInternode(
              r, internode.puts() ? internode.lowLatencyStaging() : internode.lowLatencyPart(r));
        }
      }
      llPackets = nodes.count() == 1 && allUsePackets(meeting);
      if (llPackets && !linked) {
        throw packetsAreRefused();
      }
      setLlPackets(llPackets);
      complete = true;
    } finally {
      if (!complete) {
        owned.close();
      }
    }
  }

  private EngineUnavailableException packetsAreRefused() {
    return new EngineUnavailableException(
        "low latency: rows of the other ranks travel as lines, those of rank "
            + rank
            + " on "
            + device
            + " cannot: start it without EP4J_CUDA_LL_PACKETS=0, on a GPU with NVLink, with all GPUs in"
            + " CUDA_VISIBLE_DEVICES");
  }

  /** {@link Peers#stage}. */
  String stage(Participants meeting, java.time.Duration timeout) {
    return peers.stage(meeting, timeout);
  }

  /** {@link Peers#unstage}. */
  void unstage() {
    peers.unstage();
  }

  /** Counts with the rank that was staged; before {@link #exclude} and {@link #resumeAfter}. */
  void takeIn(int peer) {
    peers.commit();
    words.setMasked(peer, false);
    words.back(peer);
    write(masks.address() + (long) peer * Long.BYTES, 0);
  }

  /**
   * Clears all words that peers write, as if all ranks had received all operations up to {@code
   * number}; nothing runs.
   */
  void resumeAfter(long number, CudaStream stream) {
    // What other nodes have told, too: an operation that was left halfway leaves some of it.
    masks.fill8(internodeState() - masks(), internodeStateBytes(), (byte) 0, stream);
    clearWords(stream);
    write(memory.address() + LowLatencyLayout.SENT, number);
    write(memory.address() + LowLatencyLayout.RECEIVED, number);
    for (int r = 0; r < ranks; r++) {
      write(receivedBy(r, memory.address()), LowLatencyLayout.grant(number));
      write(acknowledged() + (long) r * Long.BYTES, number);
      if (internode != null) {
        // Kernels look there, too: it says no less than what stands here.
        internode.setLowLatencyWord(receivedBy(r, 0), LowLatencyLayout.grant(number));
      }
    }
    if (puts != null) {
      puts.resumeAfter(number);
    }
  }

  /**
   * Whether rows travel as lines: if each rank has said that it could. A rank that comes back does
   * as the others do; what they say is what they have agreed on.
   */
  private boolean allUsePackets(Participants meeting) {
    boolean back = meeting.isNew(rank);
    boolean all = true;
    for (int r = 0; r < ranks; r++) {
      if (peers.address(r) != 0 && !(back && meeting.isNew(r))) {
        all = all && read(peers.address(r) + LowLatencyLayout.LL_PACKETS) != 0;
      }
    }
    return all;
  }

  private void setLlPackets(boolean llPackets) {
    write(memory.address() + LowLatencyLayout.LL_PACKETS, llPackets ? 1 : 0);
  }

  /** Whether rows between ranks of the node travel as lines. */
  boolean llPackets() {
    return llPackets;
  }

  /** All but {@link LowLatencyLayout#LL_PACKETS}. */
  private void clearWords(CudaStream stream) {
    memory.fill8(0, LowLatencyLayout.LL_PACKETS, (byte) 0, stream);
    memory.fill8(layout.received, layout.headers - layout.received, (byte) 0, stream);
    for (int i = 0; i < layout.areas; i++) {
      long area = layout.headers + i * layout.areaBytes;
      memory.fill8(area, layout.wordBytes, (byte) 0, stream);
    }
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

  /** Where kernels find {@code LowLatencyPuts}, or 0. */
  long puts() {
    return puts == null ? 0 : puts.address();
  }

  /** Where kernels find the masks, one word a rank. */
  long masks() {
    return masks.address();
  }

  /** Where kernels note the longest waits, one word a rank. */
  long waited() {
    return masks.address() + (long) ranks * Long.BYTES;
  }

  /** Where kernels note what they have told each rank, one word a rank. */
  long acknowledged() {
    return waited() + (long) ranks * Long.BYTES;
  }

  /** Where kernels note what ranks of other nodes have told, and what they have sent to them. */
  long internodeState() {
    return acknowledged() + (long) ranks * Long.BYTES;
  }

  /** Words of ranks, and behind them those of groups of tokens. */
  private long internodeStateBytes() {
    return (ranks + (long) LowLatencyLayout.GROUPS * LowLatencyLayout.UNITS) * Long.BYTES;
  }

  /** Ranks that are gone have no part. */
  void exclude(boolean[] gone) {
    peers.exclude(gone);
  }

  boolean isMasked(int peer) {
    return words.masked(peer);
  }

  /**
   * Masks or admits a peer. One that is masked is told nothing, so now it is told what it missed.
   */
  void mask(int peer, boolean masked) {
    if (words.masked(peer) == masked) {
      return;
    }
    words.setMasked(peer, masked);
    write(masks.address() + (long) peer * Long.BYTES, masked ? 1 : 0);
    if (!masked && peers.address(peer) != 0) {
      long grant = read(receivedBy(rank, memory.address()));
      publishReceived(peer, grant, read(memory.address() + LowLatencyLayout.RECEIVED));
    }
  }

  /** The number of the last operation that a rank has sent. */
  long sent(int peer) {
    return read(peers.address(peer) + LowLatencyLayout.SENT);
  }

  /** This rank goes on with another number than its own; no rank is inside an operation. */
  void resumeAt(long number) {
    write(memory.address() + LowLatencyLayout.SENT, number);
    write(memory.address() + LowLatencyLayout.RECEIVED, number);
    for (int peer = 0; peer < ranks; peer++) {
      if (peers.address(peer) != 0) {
        publishReceived(peer, LowLatencyLayout.grant(number), number);
      }
    }
  }

  private long receivedBy(int of, long part) {
    return part + layout.received + (long) of * Long.BYTES;
  }

  /** Tells a rank what this one has received. */
  private void publishReceived(int peer, long grant, long number) {
    write(receivedBy(rank, peers.address(peer)), grant);
    write(acknowledged() + (long) peer * Long.BYTES, number);
  }

  private long read(long address) {
    MemorySegment word = MemorySegment.ofArray(new long[1]);
    DeviceCopies.toHost(device, word, address);
    return word.getAtIndex(ValueLayout.JAVA_LONG, 0);
  }

  private void write(long address, long value) {
    DeviceCopies.toDevice(device, address, MemorySegment.ofArray(new long[] {value}));
  }

  @Override
  public void close() {
    owned.close();
  }
}
