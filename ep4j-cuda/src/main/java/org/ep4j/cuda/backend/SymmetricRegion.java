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
   * Maps regions of other ranks; collective among the ranks of the meeting. When it returns, all of
   * them have come to it, so what a rank has written into its own region before is there for all.
   *
   * @param wanted by number, the ranks whose regions are to be mapped; not this one
   * @return by number; null for those that were not wanted
   */
  @Nullable PeerRegion[] reach(Participants meeting, boolean[] wanted, Duration timeout);

  /** Frees it, once no rank uses it any more. */
  @Override
  void close();
}
