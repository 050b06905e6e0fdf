package org.ep4j.cuda.engine.throughput;

import java.util.Objects;
import org.ep4j.config.BufferConfig;
import org.ep4j.engine.Limits;
import org.ep4j.routing.ExpertPlacement;

/** Offsets in the memory of a handle: a part on the device and a part that the host reads. */
public final class HandleLayout {
  private static final int ALIGNMENT = 256;

  /** Bytes of the totals. */
  static final int TOTALS = 64;

  /** On the device. */
  final long routes;

  final long lists;
  final long matrix;
  final long flatRows;
  final long targets;
  final long groupStarts;
  final long groupRows;

  /** Routes in this node of tokens that partners in other nodes sent. */
  final long internodeRoutes;

  public final long deviceBytes;

  /** On the device, only for EXPERT_MAJOR, in a separate allocation. */
  final long slotRows;

  final long slotWeights;

  /** On the device, only for EXPERT_MAJOR, in the same allocation: the choices of this rank. */
  final long entries;

  final long keptIds;
  final long keptWeights;

  /**
   * Where the rows lie in this node of tokens that partners in other nodes sent; -1: no combine
   * reads them there.
   */
  final long internodeEntries;

  public final long slotsBytes;

  /** In page-locked memory. */
  final long totals;

  final long rankOffsets;
  final long expertOffsets;
  final long received;
  final long aligned;
  public final long hostBytes;

  /**
   * @param partners ranks of other nodes that exchange tokens with this rank
   */
  public HandleLayout(BufferConfig config, int rank, int partners, long receiveSlots) {
    ExpertPlacement placement = Objects.requireNonNull(config.placement(), "settled placement");
    long ranks = placement.ranks();
    long tokens = Limits.tokens(config);
    long local = placement.localExperts(rank);
    routes = 0;
    lists = align(routes + tokens * config.topK() * Long.BYTES);
    matrix = align(lists + ranks * tokens * Integer.BYTES);
    flatRows = align(matrix + (ranks + 4) * ranks * Integer.BYTES);
    targets = flatRows + ALIGNMENT;
    groupStarts = align(targets + tokens * config.topK() * Integer.BYTES);
    groupRows = align(groupStarts + (local + 1) * Integer.BYTES);
    internodeRoutes = align(groupRows + Math.max(1, local) * Integer.BYTES);
    deviceBytes = align(internodeRoutes + partners * tokens * config.topK() * Long.BYTES);
    long choices = Math.max(1, receiveSlots * config.topK());
    slotRows = 0;
    slotWeights = align(slotRows + choices * Long.BYTES);
    entries = align(slotWeights + choices * Float.BYTES);
    keptIds = align(entries + tokens * config.topK() * Long.BYTES);
    keptWeights = align(keptIds + tokens * config.topK() * Long.BYTES);
    long keptEnd = align(keptWeights + tokens * config.topK() * Float.BYTES);
    boolean reads = partners > 0 && Limits.writesExpertRowsInPlace(config);
    internodeEntries = reads ? keptEnd : -1;
    slotsBytes = keptEnd + (reads ? align(partners * tokens * config.topK() * Long.BYTES) : 0);
    totals = 0;
    rankOffsets = TOTALS;
    expertOffsets = align(rankOffsets + (ranks + 1) * Long.BYTES);
    received = align(expertOffsets + (local + 1) * Long.BYTES);
    aligned = align(received + local * Integer.BYTES);
    hostBytes = align(aligned + local * Integer.BYTES + 1);
  }

  private static long align(long offset) {
    return (offset + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
  }
}
