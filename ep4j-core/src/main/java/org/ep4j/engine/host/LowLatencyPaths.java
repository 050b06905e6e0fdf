package org.ep4j.engine.host;

import org.jspecify.annotations.Nullable;

/**
 * Where the words and areas of {@link LowLatencyLayout} are written and read on this rank: in the
 * parts of ranks that share memory, and for ranks of other nodes in what {@link FarLayout} puts in
 * their place.
 */
final class LowLatencyPaths {
  private final HostContext context;
  private final LowLatencyLayout layout;
  private final int rank;

  /** Ranks of other nodes; null if there are none. */
  private @Nullable FarRanks far;

  LowLatencyPaths(HostContext context, LowLatencyLayout layout) {
    this.context = context;
    this.layout = layout;
    rank = context.rank;
  }

  void connect(@Nullable FarRanks connection) {
    far = connection;
  }

  /** Ranks of other nodes; null if there are none. */
  @Nullable FarRanks far() {
    return far;
  }

  /** The ranks of other nodes if {@code peer} is one, else null. */
  @Nullable FarRanks farFrom(int peer) {
    return far == null || context.near(peer) ? null : far;
  }

  /** Where the line to {@code destination} is written. */
  long lineTo(int destination, long number) {
    FarRanks away = farFrom(destination);
    return away == null
        ? context.lowLatency(destination) + layout.line(number, rank)
        : away.shadow() + layout.line(number, destination);
  }

  /** Where the list to {@code destination} is written. */
  long listTo(int destination, long number) {
    FarRanks away = farFrom(destination);
    return away == null
        ? context.lowLatency(destination) + layout.list(number, rank)
        : away.shadow() + layout.list(number, destination);
  }

  /** Where the rows to {@code destination} are written. */
  long rowsTo(int destination, long number) {
    FarRanks away = farFrom(destination);
    return away == null
        ? context.lowLatency(destination) + layout.row(number, rank)
        : away.shadow() + layout.row(number, destination);
  }

  /** What line, list and rows of {@code source} lie in, by the offsets of the layout. */
  long from(int source) {
    FarRanks away = farFrom(source);
    return away == null ? context.lowLatency(rank) : away.areas();
  }

  /** Address of the number of the last operation of {@code number}'s parity from {@code source}. */
  long number(int source, long number) {
    FarRanks away = farFrom(source);
    return away == null
        ? context.lowLatency(rank) + layout.line(number, source) + LowLatencyLayout.NUMBER
        : away.number(source, number);
  }

  /** Address of the word STARTED of {@code peer}. */
  long started(int peer) {
    FarRanks away = farFrom(peer);
    return away == null ? context.lowLatency(peer) + LowLatencyLayout.STARTED : away.started(peer);
  }

  /** Address of the word RECEIVED of {@code peer}. */
  long received(int peer) {
    FarRanks away = farFrom(peer);
    return away == null
        ? context.lowLatency(peer) + LowLatencyLayout.RECEIVED
        : away.received(peer);
  }

  /** Address of the word that counts how often {@code peer} has masked or admitted this rank. */
  long mask(int peer) {
    FarRanks away = farFrom(peer);
    return away == null ? context.lowLatency(peer) + layout.mask(rank) : away.mask(peer);
  }
}
