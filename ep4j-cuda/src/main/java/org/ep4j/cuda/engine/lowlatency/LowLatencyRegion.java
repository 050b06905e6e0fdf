package org.ep4j.cuda.engine.lowlatency;

import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import org.ep4j.cuda.backend.SymmetricRegion;
import org.ep4j.cuda.driver.CudaDevice;
import org.ep4j.cuda.driver.CudaStream;
import org.ep4j.cuda.driver.DeviceCopies;
import org.ep4j.cuda.driver.DeviceMemory;
import org.ep4j.cuda.driver.ResourceStack;
import org.ep4j.cuda.engine.context.Peers;
import org.ep4j.cuda.engine.failure.HostWords;
import org.ep4j.cuda.internode.InternodeConnection;
import org.ep4j.engine.world.Nodes;
import org.ep4j.error.EngineUnavailableException;
import org.ep4j.error.ErrorCode;
import org.ep4j.memory.Participants;
import org.jspecify.annotations.Nullable;

/**
 * The low-latency part of this rank's memory, those of its peers, and the masks. The host reads and
 * writes here only while no kernel of this rank runs.
 */
public final class LowLatencyRegion implements AutoCloseable {
  private final ResourceStack owned = new ResourceStack();
  private final CudaDevice device;
  private final LowLatencyLayout layout;
  private final DeviceMemory memory;
  private final DeviceMemory masks;
  private final HostWords words;
  private final Nodes nodes;
  private final Peers peers;

  /** Connection to ranks of other nodes; null with one node. */
  private final @Nullable InternodeConnection internode;

  /** How kernels reach ranks of other nodes if a wire transports their rows; else null. */
  private final @Nullable LowLatencyPuts puts;

  private final int rank;
  private final int ranks;
  private final boolean llPackets;

  /**
   * Maps the peers' parts; collective. All ranks have cleared their words before.
   *
   * @param region region of this rank after {@link #clear}; its owner closes it after this object
   * @param masks of {@link #maskBytes}; likewise
   * @param table of {@link Peers#tableBytes}; likewise
   * @param linked whether rows of this rank may travel as packed flags: requested, and NVLink
   *     connects this rank with all others as far as known
   * @param internode connection to ranks of other nodes; null with one node
   */
  public LowLatencyRegion(
      Participants participants,
      Nodes nodes,
      boolean linked,
      SymmetricRegion region,
      DeviceMemory masks,
      DeviceMemory table,
      @Nullable InternodeConnection internode,
      CudaDevice device,
      LowLatencyLayout layout,
      HostWords words,
      java.time.Duration timeout) {
    this.internode = internode;
    this.nodes = nodes;
    this.device = device;
    this.layout = layout;
    this.words = words;
    rank = participants.rank();
    ranks = participants.ranks();
    memory = region.memory();
    this.masks = masks;
    boolean complete = false;
    try {
      peers = owned.own(new Peers(participants, nodes, table, region, timeout));
      puts =
          internode != null && internode.puts()
              ? owned.own(new LowLatencyPuts(device, internode, layout, ranks))
              : null;
      writeInternode();
      llPackets = nodes.count() == 1 && allUsePackets(participants);
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

  /**
   * Clears the words of a new region, before any peer maps it.
   *
   * @param linked as for the constructor
   */
  public static void clear(
      DeviceMemory memory,
      DeviceMemory masks,
      LowLatencyLayout layout,
      boolean linked,
      CudaStream stream) {
    masks.fill8(0, masks.bytes(), (byte) 0, stream);
    clearWords(memory, layout, stream);
    memory.copyFrom(
        LowLatencyLayout.LL_PACKETS, MemorySegment.ofArray(new long[] {linked ? 1 : 0}));
  }

  /** Bytes of the masks of a world, and of the state of its ranks of other nodes. */
  public static long maskBytes(int ranks) {
    return 3L * ranks * Long.BYTES + internodeStateBytes(ranks);
  }

  private EngineUnavailableException packetsAreRefused() {
    return new EngineUnavailableException(
        ErrorCode.LL_PACKETS_MISMATCH,
        "low latency: the other ranks use packed flags, which rank "
            + rank
            + " on "
            + device
            + " cannot use: start it without EP4J_CUDA_LL_PACKETS=0, on a GPU with NVLink, with all"
            + " GPUs in CUDA_VISIBLE_DEVICES");
  }

  /** Writes the addresses that kernels use for ranks of other nodes. */
  private void writeInternode() {
    for (int r = 0; internode != null && r < ranks; r++) {
      if (!nodes.together(r, rank)) {
        peers.setInternode(
            r, internode.puts() ? internode.lowLatencyStaging() : internode.lowLatencyPart(r));
      }
    }
  }

  /**
   * Adopts the new transport between the nodes, whose mode is that of the old one; called before
   * {@link #exclude} and {@link #resumeAfter}. No kernel runs.
   */
  void reconnect() {
    writeInternode();
    if (puts != null) {
      puts.writeParameters();
    }
  }

  /** {@link Peers#stage}. */
  public String stage(Participants participants, java.time.Duration timeout) {
    return peers.stage(participants, timeout);
  }

  /** {@link Peers#unstage}. */
  public void unstage() {
    peers.unstage();
  }

  /** Includes the staged rank; called before {@link #exclude} and {@link #resumeAfter}. */
  public void takeIn(int peer) {
    peers.commit();
    words.setMasked(peer, false);
    write(masks.address() + (long) peer * Long.BYTES, 0);
  }

  /**
   * Clears all words that peers write, as if all ranks had received all operations up to {@code
   * number}; no kernel runs.
   */
  void resumeAfter(long number, CudaStream stream) {
    // Also clears words from other nodes: an interrupted operation leaves some of them.
    masks.fill8(internodeState() - masks(), internodeStateBytes(ranks), (byte) 0, stream);
    clearWords(memory, layout, stream);
    write(memory.address() + LowLatencyLayout.SENT, number);
    write(memory.address() + LowLatencyLayout.RECEIVED, number);
    for (int r = 0; r < ranks; r++) {
      write(receivedBy(r, memory.address()), LowLatencyLayout.grant(number));
      write(acknowledged() + (long) r * Long.BYTES, number);
      if (internode != null) {
        // Kernels read this word too: it is at least the value here.
        internode.setLowLatencyWord(receivedBy(r, 0), LowLatencyLayout.grant(number));
      }
    }
    if (puts != null) {
      puts.resumeAfter(number);
    }
  }

  /**
   * Whether rows travel as packed flags: only if every rank supports them. A returning rank follows
   * the others, whose published values are what they agreed on.
   */
  private boolean allUsePackets(Participants participants) {
    boolean back = participants.isNew(rank);
    boolean all = true;
    for (int r = 0; r < ranks; r++) {
      if (peers.address(r) != 0 && !(back && participants.isNew(r))) {
        all = all && read(peers.address(r) + LowLatencyLayout.LL_PACKETS) != 0;
      }
    }
    return all;
  }

  private void setLlPackets(boolean llPackets) {
    write(memory.address() + LowLatencyLayout.LL_PACKETS, llPackets ? 1 : 0);
  }

  /** Whether rows between ranks of the node travel as packed flags. */
  public boolean llPackets() {
    return llPackets;
  }

  /** Clears all words except {@link LowLatencyLayout#LL_PACKETS}. */
  private static void clearWords(DeviceMemory memory, LowLatencyLayout layout, CudaStream stream) {
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

  /** Device address of the table of parts. */
  long peers() {
    return peers.table();
  }

  /** Device address of this rank's part. */
  long own() {
    return memory.address();
  }

  /** Device address of {@code LowLatencyPuts}, or 0. */
  long puts() {
    return puts == null ? 0 : puts.address();
  }

  /** Device address of the masks, one word per rank. */
  long masks() {
    return masks.address();
  }

  /** Device address of the longest waits, one word per rank. */
  long waited() {
    return masks.address() + (long) ranks * Long.BYTES;
  }

  /** Device address of the last acknowledgements to each rank, one word per rank. */
  long acknowledged() {
    return waited() + (long) ranks * Long.BYTES;
  }

  /** Device address of the state received from and sent to ranks of other nodes. */
  long internodeState() {
    return acknowledged() + (long) ranks * Long.BYTES;
  }

  /** Words of ranks, then those of groups of tokens. */
  private static long internodeStateBytes(int ranks) {
    return (ranks + (long) LowLatencyLayout.GROUPS * LowLatencyLayout.UNITS) * Long.BYTES;
  }

  /** Dead ranks have no part. */
  void exclude(boolean[] gone) {
    peers.exclude(gone);
  }

  boolean isMasked(int peer) {
    return words.masked(peer);
  }

  /**
   * Masks or admits a peer. A masked peer gets no acknowledgements, so an admitted peer now gets
   * the missed one.
   */
  void mask(int peer, boolean masked) {
    if (words.masked(peer) == masked) {
      return;
    }
    setMask(peer, masked);
    if (!masked && peers.address(peer) != 0) {
      long grant = read(receivedBy(rank, memory.address()));
      publishReceived(peer, grant, read(memory.address() + LowLatencyLayout.RECEIVED));
    }
  }

  /** Masks or admits a peer that has missed nothing. */
  void setMask(int peer, boolean masked) {
    words.setMasked(peer, masked);
    write(masks.address() + (long) peer * Long.BYTES, masked ? 1 : 0);
  }

  /** Number of the last operation that a rank has sent. */
  public long sent(int peer) {
    return read(peers.address(peer) + LowLatencyLayout.SENT);
  }

  /** Continues with another number than this rank's own; no rank is inside an operation. */
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

  /** Publishes to a rank what this rank has received. */
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
