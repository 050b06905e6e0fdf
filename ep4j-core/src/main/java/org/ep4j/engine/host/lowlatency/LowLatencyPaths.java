package org.ep4j.engine.host.lowlatency;

import org.ep4j.engine.host.context.HostContext;
import org.ep4j.engine.host.internode.InternodeLowLatency;
import org.ep4j.engine.host.layout.InternodeLowLatencyLayout;
import org.ep4j.engine.host.layout.LowLatencyLayout;
import org.jspecify.annotations.Nullable;

/**
 * Addresses of the words and areas of {@link LowLatencyLayout} on this rank: in the parts of ranks
 * that share memory, and for ranks of other nodes in the memory of {@link
 * InternodeLowLatencyLayout}.
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

  /** Address at which to write the header to {@code destination}. */
  long headerTo(int destination, long number) {
    InternodeLowLatency internode = internodeSource(destination);
    return internode == null
        ? context.lowLatency(destination) + layout.header(number, rank)
        : internode.shadow() + layout.header(number, destination);
  }

  /** Address at which to write the list to {@code destination}. */
  long listTo(int destination, long number) {
    InternodeLowLatency internode = internodeSource(destination);
    return internode == null
        ? context.lowLatency(destination) + layout.list(number, rank)
        : internode.shadow() + layout.list(number, destination);
  }

  /** Address at which to write the rows to {@code destination}. */
  long rowsTo(int destination, long number) {
    InternodeLowLatency internode = internodeSource(destination);
    return internode == null
        ? context.lowLatency(destination) + layout.row(number, rank)
        : internode.shadow() + layout.row(number, destination);
  }

  /** Base address of header, list and rows of {@code source}; offsets as in the layout. */
  long from(int source) {
    InternodeLowLatency internode = internodeSource(source);
    return internode == null ? context.lowLatency(rank) : internode.areas();
  }

  /**
   * Address of the number of the last operation with the parity of {@code number} from {@code
   * source}.
   */
  long number(int source, long number) {
    InternodeLowLatency internode = internodeSource(source);
    return internode == null
        ? context.lowLatency(rank) + layout.header(number, source) + LowLatencyLayout.NUMBER
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
