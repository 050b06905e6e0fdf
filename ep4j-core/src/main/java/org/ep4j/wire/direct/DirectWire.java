package org.ep4j.wire.direct;

import java.lang.foreign.MemorySegment;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;
import org.ep4j.error.ErrorCode;
import org.ep4j.group.Group;
import org.ep4j.memory.ClosingSteps;
import org.ep4j.wire.Counters;
import org.ep4j.wire.Lane;
import org.ep4j.wire.Region;
import org.ep4j.wire.WireConfig;
import org.ep4j.wire.WireException;
import org.ep4j.wire.WireMemory;
import org.ep4j.wire.support.CollectiveStep;
import org.ep4j.wire.support.GroupWire;
import org.ep4j.wire.support.WireArguments;

/**
 * A wire between ranks that map each other's memory: threads of one JVM, or processes of one host.
 * The sender copies and counts; the receiver's thread does nothing.
 */
final class DirectWire extends GroupWire {
  private final MappedMemory control;
  private final MemorySegment ownControl;
  private final Counters counters;
  // By peer, then by index; none to this rank itself.
  private final DirectLane[][] lanes;
  // The next peer to check, per progress context; written by the thread of the context.
  private final int[] looked;
  private final List<DirectRegion> regions = new CopyOnWriteArrayList<>();

  private DirectWire(String name, Group group, WireConfig config, MappedMemory control) {
    super(name, group, config);
    this.control = control;
    MemorySegment[] controls = control.parts();
    ownControl = controls[group.rank()];
    counters = DirectControlLayout.counters(ownControl);
    looked = new int[config.progressContexts() * 16];
    lanes = new DirectLane[group.size()][];
    for (int peer = 0; peer < lanes.length; peer++) {
      lanes[peer] = new DirectLane[peer == group.rank() ? 0 : config.lanes()];
      for (int i = 0; i < lanes[peer].length; i++) {
        lanes[peer][i] = new DirectLane(this, peer, i, controls[peer]);
      }
    }
  }

  /** Collective. */
  static DirectWire open(String name, Group group, WireConfig config) {
    return new DirectWire(
        name,
        group,
        config,
        MappedMemory.allocate(
            group, DirectControlLayout.bytes(config.counters()), config.timeout()));
  }

  Group group() {
    return group;
  }

  @Override
  public Lane lane(int peer, int index) {
    WireArguments.lane(peer, index, group.rank(), group.size(), config);
    return lanes[peer][index];
  }

  @Override
  public Region allocate(long bytes, Duration timeout) {
    requireOpen();
    MappedMemory mapped = MappedMemory.allocate(group, bytes, timeout);
    MemorySegment[] parts = mapped.parts();
    return remember(new DirectRegion(this, parts[group.rank()], parts, mapped));
  }

  @Override
  public Region expose(WireMemory memory, Duration timeout) {
    requireOpen();
    String error =
        exposes(memory)
            ? ""
            : ErrorCode.WIRE_MEMORY_UNREACHABLE.message(
                "wire '"
                    + name()
                    + "' cannot let peers reach "
                    + (memory.onHost()
                        ? "memory that it did not allocate: use allocate()"
                        : "device memory: copy it to memory of allocate()"));
    CollectiveStep.numbers(group, error, 0, timeout);
    MemorySegment own = segment(memory);
    return remember(
        new DirectRegion(this, own, ExposedSegments.exchange(group, own, timeout), null));
  }

  @Override
  public Region register(WireMemory memory) {
    requireOpen();
    return remember(new DirectRegion(this, segment(memory), null, null));
  }

  private static MemorySegment segment(WireMemory memory) {
    MemorySegment segment = memory.segment();
    if (segment == null) {
      throw new WireException(
          ErrorCode.WIRE_MEMORY_UNREACHABLE,
          "this wire cannot read device memory: copy it to host memory and register that");
    }
    return segment;
  }

  private DirectRegion remember(DirectRegion region) {
    regions.add(region);
    return region;
  }

  void forget(DirectRegion region) {
    regions.remove(region);
  }

  @Override
  public boolean registersFreely() {
    return true;
  }

  @Override
  public boolean exposes(WireMemory memory) {
    return memory.onHost() && group.inProcess();
  }

  @Override
  public Counters counters() {
    return counters;
  }

  @Override
  public int poll(int progressContext) {
    requireOpen();
    WireArguments.progressContext(progressContext, config);
    // One peer per call: a check costs more than the rest of an idle poll.
    int peer = looked[progressContext * 16];
    looked[progressContext * 16] = peer + 1 == lanes.length ? 0 : peer + 1;
    DirectLane[] toPeer = lanes[peer];
    int failed = 0;
    for (int i = progressContext; i < toPeer.length; i += config.progressContexts()) {
      failed += toPeer[i].look() ? 1 : 0;
    }
    return failed;
  }

  @Override
  public synchronized void close() {
    if (shut()) {
      ClosingSteps.run(
          () -> DirectControlLayout.close(ownControl),
          () -> ClosingSteps.each(regions, DirectRegion::close),
          control::close);
    }
  }
}
