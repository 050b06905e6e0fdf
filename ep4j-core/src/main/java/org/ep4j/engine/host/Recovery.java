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
  private static final int BYTES = Integer.BYTES + 2 * Long.BYTES;

  private Recovery() {}

  /** Collective among the live ranks. */
  static void reset(HostContext context, LowLatency lowLatency, Connector connector) {
    // Others may have begun to wait for what never comes only when this rank was told.
    Duration timeout = context.config.timeout().multipliedBy(2);
    Group live = context.group.survivors(timeout);
    boolean kept = false;
    try {
      boolean[] gone = new boolean[context.ranks];
      Arrays.fill(gone, true);
      int[] numbers = new int[live.size()];
      long epoch = 0;
      long lastLowLatency = 0;
      byte[] mine =
          ByteBuffer.allocate(BYTES)
              .putInt(context.rank)
              .putLong(context.epoch)
              .putLong(lowLatency.number())
              .array();
      byte[][] all = live.allGather(mine, timeout);
      for (int i = 0; i < all.length; i++) {
        ByteBuffer words = ByteBuffer.wrap(all[i]);
        numbers[i] = words.getInt();
        gone[numbers[i]] = false;
        epoch = Math.max(epoch, words.getLong());
        lastLowLatency = Math.max(lastLowLatency, words.getLong());
      }
      System.arraycopy(gone, 0, context.excluded, 0, gone.length);
      kept = connector.reconnect(live, numbers);
      context.restart(epoch + 1);
      lowLatency.reset(lastLowLatency);
      // Nobody begins an operation before all have left the old epochs behind.
      live.barrier(timeout);
    } finally {
      if (!kept) {
        live.close();
      }
    }
  }
}
