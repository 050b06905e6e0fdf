package org.ep4j.rdma.verbs;

import java.time.Duration;
import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;
import org.ep4j.WirePath;
import org.ep4j.group.Group;
import org.ep4j.memory.ClosingSteps;
import org.ep4j.memory.PageArena;
import org.ep4j.wire.Counters;
import org.ep4j.wire.Lane;
import org.ep4j.wire.Region;
import org.ep4j.wire.WireConfig;
import org.ep4j.wire.WireException;
import org.ep4j.wire.WireMemory;
import org.ep4j.wire.support.CollectiveStep;
import org.ep4j.wire.support.GroupWire;
import org.ep4j.wire.support.WireArguments;
import org.jspecify.annotations.Nullable;

/** A wire over queue pairs: several to each peer, on the ports of this rank. */
final class VerbsWire extends GroupWire {
  /** Timeout of a closing rank for the delivery of its goodbye. */
  private static final Duration GOODBYE_TIMEOUT = Duration.ofSeconds(1);

  private final VerbsResources resources;
  private final boolean gpuDirect;
  private final List<VerbsRegion> regions = new CopyOnWriteArrayList<>();
  private final VerbsLane[][] lanes;
  private final VerbsProgressContext[] progressContexts;

  /** A wire over connected queue pairs; takes ownership of the resources. */
  VerbsWire(Group group, WireConfig config, VerbsResources resources, boolean gpuDirect) {
    super(VerbsWireProvider.NAME, group, config);
    this.resources = resources;
    this.gpuDirect = gpuDirect;
    lanes = new VerbsLane[group.size()][config.lanes()];
    progressContexts = new VerbsProgressContext[config.progressContexts()];
    for (int progressContext = 0; progressContext < progressContexts.length; progressContext++) {
      QueuePair[] pairs = resources.pairs(progressContext);
      resources.makeLanes(this, progressContext, lanes);
      progressContexts[progressContext] =
          new VerbsProgressContext(
              this, group, resources.completions(progressContext), pairs, resources.pairsPerPeer());
    }
  }

  @Override
  public Lane lane(int peer, int index) {
    WireArguments.lane(peer, index, group.rank(), group.size(), config);
    return lanes[peer][index];
  }

  VerbsProgressContext progressContext(int progressContext) {
    return progressContexts[progressContext];
  }

  @Override
  public Region allocate(long bytes, Duration timeout) {
    requireOpen();
    PageArena owned = new PageArena();
    boolean done = false;
    try {
      Region region = exposed(hostMemory(owned, bytes, timeout), owned, timeout);
      done = true;
      return region;
    } finally {
      if (!done) {
        owned.close();
      }
    }
  }

  @Override
  public Region expose(WireMemory memory, Duration timeout) {
    requireOpen();
    return exposed(memory, null, timeout);
  }

  private Region exposed(WireMemory memory, @Nullable PageArena owned, Duration timeout) {
    String error = unreachable(memory);
    VerbsRegion region = null;
    boolean done = false;
    try {
      if (error.isEmpty()) {
        try {
          region = VerbsRegion.register(this, resources.ports(), memory, owned, true);
        } catch (WireException e) {
          error = "cannot register %d bytes: %s".formatted(memory.bytes(), e.getMessage());
        }
      }
      byte[] offer = region == null ? new byte[0] : region.offer();
      byte[][] offers = CollectiveStep.exchange(group, error, offer, timeout);
      if (region == null) {
        throw new IllegalStateException("the exchange hid an error of this rank");
      }
      region.meet(offers);
      regions.add(region);
      done = true;
      return region;
    } finally {
      if (!done && region != null) {
        region.withdraw();
      }
    }
  }

  @Override
  public Region register(WireMemory memory) {
    requireOpen();
    requireReadable(memory);
    VerbsRegion region = VerbsRegion.register(this, resources.ports(), memory, null, false);
    regions.add(region);
    return region;
  }

  void forget(VerbsRegion region) {
    regions.remove(region);
  }

  @Override
  public boolean carriesDeviceMemory() {
    return gpuDirect;
  }

  @Override
  public boolean exposes(WireMemory memory) {
    return memory.onHost() || gpuDirect;
  }

  /** A lane fails after this end of its queue pair is stopped: the device accepts no more work. */
  @Override
  public boolean severs() {
    return true;
  }

  @Override
  public Counters counters() {
    return resources.counters();
  }

  @Override
  public List<WirePath> paths() {
    return resources.paths();
  }

  @Override
  public int poll(int progressContext) {
    requireOpen();
    WireArguments.progressContext(progressContext, config);
    return progressContexts[progressContext].poll();
  }

  @Override
  public synchronized void close() {
    if (!shut()) {
      return;
    }
    ClosingSteps.run(this::sendGoodbye, this::release);
  }

  private void sendGoodbye() {
    long end = System.nanoTime() + GOODBYE_TIMEOUT.toNanos();
    boolean open = true;
    while (open && System.nanoTime() - end < 0) {
      open = false;
      for (VerbsProgressContext progressContext : progressContexts) {
        open |= !progressContext.sendGoodbye();
      }
      Thread.yield();
    }
  }

  private void release() {
    // Queue pairs before the memory that they write: if one does not end, the memory stays.
    resources.closePairs();
    ClosingSteps.run(() -> ClosingSteps.each(regions, VerbsRegion::close), resources::close);
  }
}
