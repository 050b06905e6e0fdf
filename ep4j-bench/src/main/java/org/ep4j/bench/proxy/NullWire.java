package org.ep4j.bench.proxy;

import java.lang.foreign.Arena;
import java.time.Duration;
import org.ep4j.error.ErrorCode;
import org.ep4j.memory.NativeMemory;
import org.ep4j.wire.Counters;
import org.ep4j.wire.Lane;
import org.ep4j.wire.LaneFailure;
import org.ep4j.wire.Region;
import org.ep4j.wire.Wire;
import org.ep4j.wire.WireConfig;
import org.ep4j.wire.WireException;
import org.ep4j.wire.WireMemory;
import org.jspecify.annotations.Nullable;

/**
 * A wire that discards all work, to measure the path in front of a wire. Its lanes count the work;
 * in rounds they also answer each put and record its time.
 */
final class NullWire implements Wire {
  private static final int UNIT = 16;

  private final WireConfig config;
  private final int size;
  private final Lane[] lanes;
  private final Arena arena = Arena.ofShared();
  private final Counters counters = new Counters(arena.allocate(Long.BYTES, Long.BYTES));
  private final long answer;

  /** Time of the put of each round, from {@link System#nanoTime}. */
  final long[] posts;

  /**
   * A wire of rank 0 with a lane to each peer in each progress context.
   *
   * @param answer address of the number of answered rounds; 0 for no rounds
   */
  NullWire(int peers, int progressContexts, long answer, int rounds) {
    this.size = peers + 1;
    this.answer = answer;
    this.posts = new long[rounds];
    this.config =
        WireConfig.builder().lanes(progressContexts).progressContexts(progressContexts).build();
    this.lanes = new Lane[size * progressContexts];
    for (int i = 0; i < lanes.length; i++) {
      lanes[i] = new NullLane(i / progressContexts, i % progressContexts);
    }
  }

  /** Sum of the start units of all puts; valid after the threads of all lanes have ended. */
  long checksum() {
    long sum = 0;
    for (Lane lane : lanes) {
      sum += ((NullLane) lane).units;
    }
    return sum;
  }

  Region region() {
    return register(WireMemory.host(counters.words()));
  }

  @Override
  public String name() {
    return "null";
  }

  @Override
  public int rank() {
    return 0;
  }

  @Override
  public int size() {
    return size;
  }

  @Override
  public WireConfig config() {
    return config;
  }

  @Override
  public Lane lane(int peer, int index) {
    return lanes[peer * config.progressContexts() + index];
  }

  @Override
  public Region allocate(long bytes, Duration timeout) {
    throw new WireException(ErrorCode.WIRE_FAILED, "the discarding wire has no memory");
  }

  @Override
  public Region expose(WireMemory memory, Duration timeout) {
    throw new WireException(ErrorCode.WIRE_FAILED, "the discarding wire has no peers");
  }

  @Override
  public Region register(WireMemory memory) {
    return new NullRegion(memory);
  }

  @Override
  public boolean exposes(WireMemory memory) {
    return false;
  }

  @Override
  public Counters counters() {
    return counters;
  }

  @Override
  public int poll(int progressContext) {
    return 0;
  }

  @Override
  public int failedLanes() {
    return 0;
  }

  @Override
  public void close() {
    if (arena.scope().isAlive()) {
      arena.close();
    }
  }

  /** Describes memory without reading it. */
  private record NullRegion(WireMemory memory) implements Region {
    @Override
    public long bytes() {
      return memory.bytes();
    }

    @Override
    public long bytes(int rank) {
      return memory.bytes();
    }

    @Override
    public boolean exposed() {
      return false;
    }

    @Override
    public void close() {}
  }

  private final class NullLane implements Lane {
    private final int peer;
    private final int index;
    private long accepted;
    private long units;

    NullLane(int peer, int index) {
      this.peer = peer;
      this.index = index;
    }

    @Override
    public int peer() {
      return peer;
    }

    @Override
    public int index() {
      return index;
    }

    @Override
    public long put(
        Region local, long localOffset, Region remote, long remoteOffset, long bytes, int counter) {
      long unit = localOffset / UNIT;
      if (answer != 0) {
        posts[(int) unit] = System.nanoTime();
        NativeMemory.putLongRelease(answer, unit + 1);
      }
      units += unit;
      return ++accepted;
    }

    @Override
    public long add(int counter, long value) {
      return ++accepted;
    }

    @Override
    public boolean flush() {
      return true;
    }

    @Override
    public long accepted() {
      return accepted;
    }

    @Override
    public long delivered() {
      return accepted;
    }

    @Override
    public @Nullable LaneFailure failure() {
      return null;
    }
  }
}
