package org.ep4j.cuda.backend.direct;

import java.nio.ByteBuffer;
import java.time.Duration;
import org.ep4j.cuda.backend.PeerRegion;
import org.ep4j.cuda.driver.ResourceStack;
import org.ep4j.memory.Participants;
import org.jspecify.annotations.Nullable;

/** The exchange by which ranks map each other's regions. */
final class RegionExchange {
  private RegionExchange() {}

  /** Maps the region of another rank. */
  @FunctionalInterface
  interface Mapping {
    /** Maps the region of {@code rank}, which has sent {@code message}. */
    PeerRegion map(ByteBuffer message, int rank);
  }

  /**
   * Maps regions of other ranks; collective among the participants.
   *
   * @param mine what other ranks need to map the region of this rank
   * @param wanted by rank, whether to map its region
   * @return by rank; null for regions that were not requested
   */
  static @Nullable PeerRegion[] run(
      Participants participants, byte[] mine, boolean[] wanted, Duration timeout, Mapping mapping) {
    byte[][] all = participants.group().allGather(mine, timeout);
    @Nullable PeerRegion[] reached = new PeerRegion[participants.ranks()];
    ResourceStack held = new ResourceStack();
    boolean complete = false;
    try {
      for (int i = 0; i < all.length; i++) {
        int r = participants.number(i);
        if (wanted[r]) {
          reached[r] = held.own(mapping.map(ByteBuffer.wrap(all[i]), r));
        }
      }
      complete = true;
      return reached;
    } finally {
      if (!complete) {
        held.close();
      }
    }
  }
}
