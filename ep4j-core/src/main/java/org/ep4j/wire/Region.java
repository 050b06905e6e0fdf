package org.ep4j.wire;

import java.lang.foreign.MemorySegment;
import org.jspecify.annotations.Nullable;

/**
 * Memory of this rank that a wire can read, and, if it was made together with the peers, their
 * parts too.
 */
public interface Region extends AutoCloseable {
  /** Bytes of this rank's memory. */
  long bytes();

  /**
   * Bytes of a rank's part.
   *
   * @throws IllegalStateException if the region is registered on this rank only
   */
  long bytes(int rank);

  /**
   * A rank's part as this process can load and store it, for those who can do without puts: devices
   * that have it mapped. What is stored there is announced by {@link Lane#add}, as after a put.
   *
   * @return null if the wire has to carry what goes there, or the region is registered on this rank
   *     only
   */
  default @Nullable MemorySegment mapped(int rank) {
    return null;
  }

  /** Whether the peers can put into it. */
  boolean exposed();

  /** This rank's memory. */
  WireMemory memory();

  /**
   * This rank's memory, if it is host memory.
   *
   * @throws IllegalStateException if it lies on a device
   */
  default MemorySegment segment() {
    @Nullable MemorySegment segment = memory().segment();
    if (segment == null) {
      throw new IllegalStateException("the region lies on a device and has no segment");
    }
    return segment;
  }

  /**
   * Withdraws the region from the wire, on this rank; a second call does nothing. Work of this rank
   * that uses it must have left before ({@link Lane#flush()}). The ranks agree beforehand, for
   * example by a barrier, that no put into it is under way; one that comes too late is dropped or
   * fails its lane, but touches no memory that its owner got back.
   */
  @Override
  void close();
}
