package org.ep4j.cuda.far;

import java.lang.foreign.MemorySegment;
import java.time.Duration;
import org.ep4j.cuda.backend.PutTransport;
import org.jspecify.annotations.Nullable;

/**
 * What carries between the nodes ({@code kernels/internode_transport.cuh}), and this rank's memory
 * for it: landing memory, which ranks of other nodes write into, outgoing memory, which holds what
 * they cannot be given otherwise, and counters. All of it is cleared.
 */
interface InternodeLink extends AutoCloseable {
  /** As {@code BufferConfig.wire()} names it. */
  String wire();

  /** Landing memory of this rank, as kernels see it. */
  long incoming();

  /** Landing memory of another rank where kernels write it themselves; else 0. */
  long incoming(int rank);

  /** Whether it carries what kernels write, instead of their writing it where it belongs. */
  boolean puts();

  /** Outgoing memory; 0 where nothing is put. */
  long outgoing();

  /** Where that begins in what puts name as their source. */
  long outgoingSource();

  /** The counters of this rank. */
  long counters();

  /** Bytes for what travels. */
  long memoryBytes();

  /** Lanes that the commands of a ring may name. */
  int lanesPerRing();

  /** What kernels have to be linked to; null if nothing. */
  @Nullable PutTransport transport();

  /**
   * Writes the {@code InternodeTransport} of kernels, {@link InternodeTransportField#BYTES} bytes
   * of zeros.
   */
  void describe(MemorySegment transport);

  /** Whether nothing more leaves this rank. Any thread; cheap. */
  boolean stopped();

  /** Why nothing more comes from a rank of another node; null while all is well. Any thread. */
  @Nullable String problem(int peer);

  /** Why this cannot go on without a rank of another node that is gone; empty if it can. */
  String refusesLossOf(int rank);

  /**
   * Waits until nothing is under way between the ranks that are left any more, on all of them; none
   * runs a kernel. From here on only {@link #beginAnew}, this, and {@link #close} are called.
   *
   * @param time the number of this time: the same on all, and higher than any before
   * @return empty, or why it cannot begin anew
   */
  String quiesce(boolean[] gone, long time, Duration timeout);

  /** Makes everything as it was when it was opened, at the same addresses. */
  void beginAnew();

  /** Sets a word of the landing memory of this rank; nobody else writes it now. */
  void setIncomingWord(long offset, long value);

  @Override
  void close();
}
