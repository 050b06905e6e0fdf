package org.ep4j.cuda.engine;

import java.lang.foreign.MemorySegment;
import java.nio.ByteBuffer;
import java.time.Duration;
import java.util.Arrays;
import org.ep4j.group.Group;
import org.jspecify.annotations.Nullable;

/**
 * Getting out of a broken operation: the ranks that are alive find each other through the group,
 * end what their GPUs still do, agree on who is gone, and clear their words before any of them
 * begins anew.
 */
final class Recovery {
  private Recovery() {}

  /** Collective among the live ranks; returns their group, owned by the caller. */
  static Group reset(CudaContext context, @Nullable LowLatency lowLatency) {
    // Kernels that wait for somebody leave now; then nobody writes into anybody's words.
    context.words.abort();
    context.completion.awaitAll();
    Duration timeout = context.config.timeout();
    boolean[] gone = new boolean[context.ranks];
    Arrays.fill(gone, true);
    Group live = context.group.survivors(timeout);
    boolean done = false;
    try {
      byte[] mine = ByteBuffer.allocate(Integer.BYTES).putInt(context.rank).array();
      for (byte[] one : live.allGather(mine, timeout)) {
        gone[ByteBuffer.wrap(one).getInt()] = false;
      }
      context.peers.exclude(gone);
      context.owners.copyFrom(
          0, MemorySegment.ofArray(Opening.ownerTable(context.placement, gone)));
      context.clearWords();
      context.calls.clear();
      if (lowLatency != null) {
        lowLatency.reset(gone);
      }
      live.barrier(timeout);
      context.completion.reset(gone);
      context.generation++;
      done = true;
      return live;
    } finally {
      if (!done) {
        live.close();
      }
    }
  }
}
