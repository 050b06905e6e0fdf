package org.ep4j.wire;

import java.lang.foreign.MemorySegment;
import org.ep4j.error.ErrorCode;
import org.ep4j.error.IllegalUseException;
import org.jspecify.annotations.Nullable;

/**
 * Memory of this rank that a wire can read, and the parts of the peers if the region was made
 * together with them.
 */
public interface Region extends AutoCloseable {
  /** Bytes of this rank's memory. */
  long bytes();

  /**
   * Bytes of a rank's part.
   *
   * @throws org.ep4j.error.IllegalUseException if the region is registered on this rank only
   */
  long bytes(int rank);

  /**
   * A rank's part for direct loads and stores of this process, for callers that do not need puts,
   * such as devices that have it mapped. Announce stores by {@link Lane#add}, as after a put.
   *
   * @return null if only the wire can reach the part, or the region is registered on this rank only
   */
  default @Nullable MemorySegment mapped(int rank) {
    return null;
  }

  /** Whether peers can put into this region. */
  boolean exposed();

  /** This rank's memory. */
  WireMemory memory();

  /**
   * This rank's memory, if it is host memory.
   *
   * @throws org.ep4j.error.IllegalUseException if it is device memory
   */
  default MemorySegment segment() {
    @Nullable MemorySegment segment = memory().segment();
    if (segment == null) {
      throw new IllegalUseException(
          ErrorCode.REGION_ON_DEVICE,
          "the region is in device memory and has no segment: use memory()");
    }
    return segment;
  }

  /**
   * Removes the region from the wire on this rank; a second call has no effect. Work of this rank
   * that uses the region must have left before ({@link Lane#flush()}). The ranks agree before, for
   * example by a barrier, that no put into it is in flight. A late put is dropped or fails its
   * lane, but never writes memory that its owner has back.
   */
  @Override
  void close();
}
