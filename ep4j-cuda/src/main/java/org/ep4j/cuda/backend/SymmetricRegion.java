package org.ep4j.cuda.backend;

import java.time.Duration;
import org.ep4j.cuda.driver.DeviceMemory;
import org.ep4j.memory.Participants;
import org.jspecify.annotations.Nullable;

/** Memory of this rank, one of a set with the same size on all ranks. */
public interface SymmetricRegion extends AutoCloseable {
  /** The memory of this rank. */
  DeviceMemory memory();

  /**
   * Maps regions of other ranks; collective among the participants. When this returns, all of them
   * have called it, so earlier writes of a rank into its own region are visible to all.
   *
   * @param wanted by rank, whether to map its region; false for this rank
   * @return by rank; null for regions that were not requested
   */
  @Nullable PeerRegion[] reach(Participants participants, boolean[] wanted, Duration timeout);

  /** Frees the memory after the last use by any rank. */
  @Override
  void close();
}
