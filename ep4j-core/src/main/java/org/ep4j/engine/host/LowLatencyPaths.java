package org.ep4j.engine.host;

import org.jspecify.annotations.Nullable;

/**
 * Where the words and areas of {@link LowLatencyLayout} are written and read on this rank: in the
 * parts of ranks that share memory, and for ranks of other nodes in what {@link
 * InternodeLowLatencyLayout} puts in their place.
 */
final class LowLatencyPaths {
  private final HostContext context;
  private final LowLatencyLayout layout;
  private final int rank;

  /** Ranks of other nodes; null if there are none. */
  private @Nullable InternodeLowLatency internode;

  LowLatencyPaths(HostContext context, LowLatencyLayout layout) {
    this.context = context;
    this.layout = layout;
    rank = context.rank;
  }

  void connect(@Nullable InternodeLowLatency connection) {
    internode = connection;
  }

  /** Ranks of other nodes; null if there are none. */
  @Nullable InternodeLowLatency internode() {
    return internode;
  }

  /** The ranks of other nodes if {@code peer} is one, else null. */
  @Nullable InternodeLowLatency internodeSource(int peer) {
    return internode == null || context.isIntranode(peer) ? null : internode;
  }

  /** Where the line to {@code destination} is written. */
  long lineTo(int destination, long number) {
    InternodeLowLatency internode = internodeSource(destination);
    return internode == null
        ? context.lowLatency(destination) + layout.line(number, rank)
        : internode.shadow() + layout.line(number, destination);
  }

  /** Where the list to {@code destination} is written. */
  long listTo(int destination, long number) {
    InternodeLowLatency internode = internodeSource(destination);
    return internode == null
        ? context.lowLatency(destination) + layout.list(number, rank)
        : internode.shadow() + layout.list(number, destination);
  }

  /** Where the rows to {@code destination} are written. */
  long rowsTo(int destination, long number) {
    InternodeLowLatency internode = internodeSource(destination);
    return internode == null
        ? context.lowLatency(destination) + layout.row(number, rank)
        : internode.shadow() + layout.row(number, destination);
  }

  /** What line, list and rows of {@code source} lie in, by the offsets of the layout. */
  long from(int source) {
    InternodeLowLatency internode = internodeSource(source);
    return internode == null ? context.lowLatency(rank) : internode.areas();
  }

  /** Address of the number of the last operation of {@code number}'s parity from {@code source}. */
  long number(int source, long number) {
    InternodeLowLatency internode = internodeSource(source);
    return internode == null
        ? context.lowLatency(rank) + layout.line(number, source) + LowLatencyLayout.NUMBER
        : internode.number(source, number);
  }

  /** Address of the word STARTED of {@code peer}. */
  long started(int peer) {
    InternodeLowLatency internode = internodeSource(peer);
    return internode == null
        ? context.lowLatency(peer) + LowLatencyLayout.STARTED
        : internode.started(peer);
  }

  /** Address of the word RECEIVED of {@code peer}. */
  long received(int peer) {
    InternodeLowLatency internode = internodeSource(peer);
    return internode == null
        ? context.lowLatency(peer) + LowLatencyLayout.RECEIVED
        : internode.received(peer);
  }

  /** Address of the word that counts how often {@code peer} has masked or admitted this rank. */
  long mask(int peer) {
    InternodeLowLatency internode = internodeSource(peer);
    return internode == null ? context.lowLatency(peer) + layout.mask(rank) : internode.mask(peer);
  }
}
