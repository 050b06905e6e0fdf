package org.ep4j.cuda.internode;

import java.time.Duration;
import java.util.List;
import org.ep4j.WirePath;
import org.ep4j.config.WireOptions;
import org.ep4j.cuda.backend.PutTransport;
import org.ep4j.cuda.struct.InternodeTransport;
import org.jspecify.annotations.Nullable;

/**
 * The transport between nodes ({@code kernels/internode/internode_transport.cuh}) and its zeroed
 * memory on this rank: receive memory, which ranks of other nodes write into; outgoing memory,
 * which holds data that kernels cannot write to the destination; and counters.
 */
interface InternodeLink extends AutoCloseable {
  /** Name as in {@code BufferConfig.wire()}. */
  String wire();

  /** Settings as in {@code BufferConfig.wireOptions()}. */
  WireOptions wireOptions();

  /** Paths that count bytes, as {@code BufferStatistics.wirePaths()}. Any thread. */
  List<WirePath> paths();

  /** Receive memory of this rank, as a device address. */
  long incoming();

  /** Receive memory of another rank if kernels write it themselves; else 0. */
  long incoming(int rank);

  /**
   * Whether the transport copies what kernels write locally; false if kernels write to the
   * destination.
   */
  boolean puts();

  /** Outgoing memory; 0 without puts. */
  long outgoing();

  /** Offset of the outgoing memory in the source of puts. */
  long outgoingSource();

  /** The counters of this rank. */
  long counters();

  /** Lanes that the commands of a ring may name. */
  int lanesPerRing();

  /** The library that kernels must be linked to; null if none. */
  @Nullable PutTransport transport();

  /**
   * Writes the parameter of kernels.
   *
   * @param to zeroed
   */
  void describe(InternodeTransport to);

  /** Whether this rank no longer sends. Any thread; cheap. */
  boolean stopped();

  /** Why a rank of another node no longer sends; null if it does. Any thread. */
  @Nullable String problem(int peer);

  /**
   * Tells the other ranks, after all that this rank has sent, that it enters no further operation,
   * if the transport can. No kernel of this rank runs. Does not wait.
   */
  void publishClosed();

  /**
   * Whether a rank has published that it enters no further operation; all that it has sent is then
   * here. Any thread.
   */
  boolean hasClosed(int peer);

  /** Why the transport does not support the loss of a rank of another node; empty if it does. */
  String refusesLossOf(int rank);

  /**
   * Waits until nothing is in flight between the survivors; called on all of them while none runs a
   * kernel. Afterwards only {@link #beginAnew}, this method and {@link #close} may be called.
   *
   * @param missing ranks that take no part
   * @param gone those whose transfers must have ended
   * @param time number of the round: equal on all ranks, higher than any before
   * @return empty, or the reason why the transport cannot begin anew
   */
  String quiesce(boolean[] missing, boolean[] gone, long time, Duration timeout);

  /** Restores the initial state at the same addresses. */
  void beginAnew();

  /** Sets a word of the receive memory of this rank; there is no concurrent writer. */
  void setIncomingWord(long offset, long value);

  @Override
  void close();
}
