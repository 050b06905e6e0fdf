package org.ep4j.cuda.engine;

import java.lang.foreign.MemorySegment;
import java.time.Duration;
import java.util.List;
import org.ep4j.cuda.backend.BackendProbe;
import org.ep4j.cuda.backend.BackendWorld;
import org.ep4j.engine.Nodes;
import org.ep4j.engine.Reunion;
import org.ep4j.group.Group;
import org.ep4j.memory.Meeting;
import org.jspecify.annotations.Nullable;

/**
 * Getting out of a broken operation, and taking in ranks that come back: the ranks that are alive
 * find each other through the group, end what their GPUs still do, agree on who is gone, and clear
 * their words before any of them begins anew. One that comes back has words as clear as these.
 */
final class Recovery {
  private static final String REMEDY =
      "close the buffer on all live ranks and open another among them";

  private final CudaContext context;
  private final @Nullable LowLatency lowLatency;
  private final @Nullable LowLatencyPart part;

  /**
   * @param part that the low-latency operations use; null if there are none
   */
  Recovery(CudaContext context, @Nullable LowLatency lowLatency, @Nullable LowLatencyPart part) {
    this.context = context;
    this.lowLatency = lowLatency;
    this.part = part;
  }

  /** Collective among the live ranks; returns their group, owned by the caller. */
  Group reset() {
    context.requireOneNode("beginning anew", REMEDY);
    Reunion.requireNobodyBack(context.members);
    quiet();
    Duration timeout = context.config.timeout();
    try (Reunion reunion = Reunion.ofSurvivors(context.group, context.members, timeout)) {
      return beginAnew(reunion);
    }
  }

  /**
   * The same with ranks that call {@link Opening#rejoin} meanwhile. Until all ranks have mapped
   * what they need, the buffer stays as it was.
   */
  Group readmit() {
    context.requireOneNode("beginning anew", REMEDY);
    String refused = context.backend.refusesReadmission();
    if (!refused.isEmpty()) {
      throw new IllegalStateException("readmit: " + refused);
    }
    boolean broken = context.completion.isBroken();
    quiet();
    boolean taken = false;
    try (Reunion reunion =
        Reunion.withNewcomers(
            context.group, context.members, context.config, Nodes.one(context.ranks))) {
      map(reunion);
      taken = true;
      for (int r = 0; r < context.ranks; r++) {
        if (reunion.meeting().isNew(r)) {
          context.members.take(r);
          if (part != null) {
            part.takeIn(r);
          }
        }
      }
      return beginAnew(reunion);
    } finally {
      if (!taken && !broken) {
        context.words.reset();
      }
    }
  }

  /** The last step of a rank that comes back. */
  Group rejoin(Reunion reunion) {
    // The others tell whether they could map this rank's memory.
    reunion.agree("", reunion.timeout());
    return beginAnew(reunion);
  }

  /** Kernels that wait for somebody leave now; then nobody writes into anybody's words. */
  private void quiet() {
    context.words.abort();
    context.completion.awaitAll();
  }

  /** In the order in which {@link Opening} does it on those that come back. */
  private void map(Reunion reunion) {
    Meeting meeting = reunion.meeting();
    Duration timeout = reunion.timeout();
    boolean done = false;
    try {
      // Newcomers open their backend first; what they find does not change that of this rank.
      BackendWorld.gather(meeting, context.device, timeout, BackendProbe.found("", "", List.of()));
      context.calls.readmit(meeting, timeout);
      String problem = context.peers.stage(meeting, timeout);
      if (part != null) {
        String another = part.stage(meeting, timeout);
        problem = problem.isEmpty() ? another : problem;
      }
      reunion.agree(problem, timeout);
      context.peers.commit();
      done = true;
    } finally {
      if (!done) {
        context.peers.unstage();
        if (part != null) {
          part.unstage();
        }
      }
    }
  }

  /** Where this ends halfway, others may clear words that one of them has begun to use. */
  private Group beginAnew(Reunion reunion) {
    boolean[] gone = reunion.gone();
    boolean done = false;
    try {
      context.peers.exclude(gone);
      context.owners.copyFrom(
          0, MemorySegment.ofArray(Opening.ownerTable(context.placement, gone)));
      context.clearWords();
      context.calls.clear();
      if (lowLatency != null) {
        lowLatency.reset(gone);
      }
      reunion.live().barrier(reunion.timeout());
      done = true;
    } finally {
      if (!done) {
        context.completion.needsReset("the ranks have not all begun anew");
      }
    }
    context.completion.reset(gone);
    context.generation++;
    return reunion.keep();
  }
}
