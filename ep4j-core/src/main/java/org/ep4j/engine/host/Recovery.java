package org.ep4j.engine.host;

import java.nio.ByteBuffer;
import java.time.Duration;
import java.util.Arrays;
import org.ep4j.group.Group;

/**
 * Getting out of a broken operation: the ranks that are alive find each other through the group,
 * not through the words in shared memory, and agree on who is gone and on an epoch that none has
 * used.
 */
final class Recovery {
  private static final int BYTES = Integer.BYTES + Long.BYTES;

  private Recovery() {}

  /** Collective among the live ranks. */
  static void reset(HostContext context, LowLatency lowLatency) {
    Duration timeout = context.config.timeout();
    boolean[] gone = new boolean[context.ranks];
    Arrays.fill(gone, true);
    long epoch = 0;
    try (Group live = context.group.survivors(timeout)) {
      byte[] mine = ByteBuffer.allocate(BYTES).putInt(context.rank).putLong(context.epoch).array();
      for (byte[] one : live.allGather(mine, timeout)) {
        ByteBuffer words = ByteBuffer.wrap(one);
        gone[words.getInt()] = false;
        epoch = Math.max(epoch, words.getLong());
      }
      for (int r = 0; r < context.ranks; r++) {
        context.excluded[r] = gone[r];
      }
      context.restart(epoch + 1);
      lowLatency.reset();
      // Nobody begins an operation before all have left the old epochs behind.
      live.barrier(timeout);
    }
  }
}
