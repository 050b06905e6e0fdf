package org.ep4j.cuda.internode;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.atomic.AtomicLong;
import org.ep4j.cuda.driver.CudaDevice;
import org.ep4j.cuda.driver.PinnedMemory;
import org.ep4j.cuda.driver.ResourceStack;
import org.ep4j.error.ErrorCode;
import org.ep4j.group.Group;
import org.ep4j.wire.Counters;
import org.ep4j.wire.Lane;
import org.ep4j.wire.Region;
import org.ep4j.wire.WireConfig;
import org.ep4j.wire.WireException;
import org.ep4j.wire.WireMemory;
import org.ep4j.wire.support.CollectiveStep;
import org.ep4j.wire.support.GroupWire;
import org.ep4j.wire.support.NumberedRegions;
import org.ep4j.wire.support.WireArguments;
import org.jspecify.annotations.Nullable;

/**
 * A wire between threads of this JVM for memory of GPUs, on machines without a network card: the
 * copy engines of the GPUs read and write instead of cards, in streams concurrent with kernels. The
 * sender's thread increments counters after its copies are done. Host memory is rejected: a caller
 * that sees a wire with device memory should use device memory.
 */
final class CopyingWire extends GroupWire {
  static final String NAME = "copying";

  /** Bytes of a lane that one round copies. */
  private static final long STAGED = 1 << 18;

  private static final AtomicLong NUMBERS = new AtomicLong();
  private static final Map<Long, CopyingWire> OPEN = new ConcurrentHashMap<>();

  private final ResourceStack owned = new ResourceStack();
  private final long number = NUMBERS.incrementAndGet();
  private final CudaDevice device;
  private final Counters counters;
  private final CopyingProgressContext[] progressContexts;
  private final CopyingLane[][] lanes;
  private final CopyingWire[] peers;
  private final NumberedRegions<CopyingRegion> exposed = new NumberedRegions<>();
  private final List<CopyingRegion> regions = new CopyOnWriteArrayList<>();
  private volatile boolean left;

  /** Collective. */
  CopyingWire(Group group, WireConfig config, int ordinal) {
    super(NAME, group, config);
    device = owned.own(CudaDevice.open(ordinal));
    counters = Counters.allocate(Arena.ofAuto(), config.counters());
    peers = new CopyingWire[group.size()];
    lanes = new CopyingLane[group.size()][];
    progressContexts = new CopyingProgressContext[config.progressContexts()];
    for (int s = 0; s < progressContexts.length; s++) {
      progressContexts[s] = owned.own(new CopyingProgressContext(device));
    }
    OPEN.put(number, this);
    long[] numbers = CollectiveStep.numbers(group, "", number, config.timeout());
    for (int peer = 0; peer < peers.length; peer++) {
      peers[peer] = Objects.requireNonNull(OPEN.get(numbers[peer]));
      lanes[peer] = new CopyingLane[peer == group.rank() ? 0 : config.lanes()];
      for (int i = 0; i < lanes[peer].length; i++) {
        MemorySegment staging = owned.own(PinnedMemory.allocate(device, STAGED)).segment();
        lanes[peer][i] = new CopyingLane(this, peers[peer], config, peer, i, staging);
        progressContexts[i % progressContexts.length].add(lanes[peer][i]);
      }
    }
    // All ranks have read the flag.
    group.barrier(config.timeout());
    OPEN.remove(number);
  }

  /** The GPU whose memory it reads and writes. */
  int ordinal() {
    return device.ordinal();
  }

  /** Whether its rank has closed it. */
  boolean hasLeft() {
    return left;
  }

  /** The region of this rank with a number that all ranks know; null once closed. */
  @Nullable CopyingRegion region(int number) {
    return exposed.get(number);
  }

  void forget(CopyingRegion region) {
    regions.remove(region);
    if (region.exposed()) {
      exposed.remove(region.number());
    }
  }

  @Override
  public Lane lane(int peer, int index) {
    WireArguments.lane(peer, index, group.rank(), group.size(), config);
    return lanes[peer][index];
  }

  @Override
  public Region allocate(long bytes, Duration timeout) {
    throw onlyOfDevices();
  }

  private static WireException onlyOfDevices() {
    return new WireException(ErrorCode.WIRE_FAILED, "wire 'copying' is for memory of GPUs");
  }

  @Override
  public Region expose(WireMemory memory, Duration timeout) {
    requireOpen();
    requireDevice(memory);
    CopyingRegion region = exposed.add(n -> new CopyingRegion(this, memory, n));
    region.sizes(CollectiveStep.numbers(group, "", memory.bytes(), timeout));
    regions.add(region);
    return region;
  }

  @Override
  public Region register(WireMemory memory) {
    requireOpen();
    requireDevice(memory);
    CopyingRegion region = new CopyingRegion(this, memory, CopyingRegion.OWN);
    regions.add(region);
    return region;
  }

  private static void requireDevice(WireMemory memory) {
    if (memory.onHost()) {
      throw onlyOfDevices();
    }
  }

  @Override
  public boolean carriesDeviceMemory() {
    return true;
  }

  @Override
  public boolean exposes(WireMemory memory) {
    return !memory.onHost();
  }

  @Override
  public Counters counters() {
    return counters;
  }

  @Override
  public int poll(int progressContext) {
    requireOpen();
    WireArguments.progressContext(progressContext, config);
    return progressContexts[progressContext].poll();
  }

  @Override
  public void close() {
    if (shut()) {
      left = true;
      regions.forEach(CopyingRegion::close);
      owned.close();
    }
  }
}
