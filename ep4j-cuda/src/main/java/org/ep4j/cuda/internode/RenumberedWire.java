package org.ep4j.cuda.internode;

import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import org.ep4j.WirePath;
import org.ep4j.wire.Counters;
import org.ep4j.wire.Lane;
import org.ep4j.wire.LaneFailure;
import org.ep4j.wire.Region;
import org.ep4j.wire.Wire;
import org.ep4j.wire.WireConfig;
import org.ep4j.wire.WireMemory;
import org.jspecify.annotations.Nullable;

/**
 * A wire among some ranks of a buffer, with the numbers that they have in the buffer. The lanes to
 * the other ranks have failed from the start.
 *
 * <p>Regions stay those of the wire, so their parts have its numbers: see {@link #member}.
 */
final class RenumberedWire implements Wire {
  /** {@link #member} of a rank that the wire does not connect. */
  static final int NO_MEMBER = -1;

  private final Wire wire;

  /** Ranks of the buffer by their numbers in the wire. */
  private final int[] numbers;

  /** Numbers in the wire by rank of the buffer. */
  private final int[] members;

  /** Lanes to all other ranks, by rank. */
  private final Lane[][] lanes;

  private final int missingLanes;

  /**
   * @param wire owned from now on
   * @param numbers ranks of the buffer that the wire connects, ascending
   * @param ranks ranks of the buffer
   */
  RenumberedWire(Wire wire, int[] numbers, int ranks) {
    this.wire = wire;
    this.numbers = numbers.clone();
    members = new int[ranks];
    Arrays.fill(members, NO_MEMBER);
    for (int i = 0; i < numbers.length; i++) {
      members[numbers[i]] = i;
    }
    int own = numbers[wire.rank()];
    int each = wire.config().lanes();
    lanes = new Lane[ranks][];
    for (int peer = 0; peer < ranks; peer++) {
      lanes[peer] = new Lane[peer == own ? 0 : each];
      for (int lane = 0; lane < lanes[peer].length; lane++) {
        lanes[peer][lane] =
            members[peer] == NO_MEMBER
                ? new MissingLane(peer, lane)
                : new RenumberedLane(peer, wire.lane(members[peer], lane));
      }
    }
    missingLanes = (ranks - numbers.length) * each;
  }

  /** Number in the wire of a rank of the buffer; {@link #NO_MEMBER} if it is not connected. */
  int member(int rank) {
    return members[rank];
  }

  @Override
  public String name() {
    return wire.name();
  }

  @Override
  public int rank() {
    return numbers[wire.rank()];
  }

  @Override
  public int size() {
    return members.length;
  }

  @Override
  public WireConfig config() {
    return wire.config();
  }

  @Override
  public Lane lane(int peer, int index) {
    return lanes[peer][index];
  }

  @Override
  public Region allocate(long bytes, Duration timeout) {
    return wire.allocate(bytes, timeout);
  }

  @Override
  public Region expose(WireMemory memory, Duration timeout) {
    return wire.expose(memory, timeout);
  }

  @Override
  public Region register(WireMemory memory) {
    return wire.register(memory);
  }

  @Override
  public boolean registersFreely() {
    return wire.registersFreely();
  }

  @Override
  public boolean carriesDeviceMemory() {
    return wire.carriesDeviceMemory();
  }

  @Override
  public boolean exposes(WireMemory memory) {
    return wire.exposes(memory);
  }

  @Override
  public Counters counters() {
    return wire.counters();
  }

  @Override
  public int poll(int progressContext) {
    return wire.poll(progressContext);
  }

  @Override
  public int failedLanes() {
    return wire.failedLanes() + missingLanes;
  }

  @Override
  public List<WirePath> paths() {
    List<WirePath> paths = new ArrayList<>();
    for (WirePath path : wire.paths()) {
      paths.add(new WirePath(numbers[path.peer()], path.port(), path.queuePair(), path.bytes()));
    }
    return paths;
  }

  @Override
  public boolean severs() {
    return wire.severs();
  }

  @Override
  public void close() {
    wire.close();
  }

  @Override
  public String toString() {
    return wire + " among ranks " + Arrays.toString(numbers);
  }

  private static LaneFailure numbered(int peer, LaneFailure failure) {
    return new LaneFailure(
        peer,
        failure.lane(),
        failure.cause(),
        failure.text(),
        failure.delivered(),
        failure.accepted());
  }

  /** A lane of the wire. */
  private record RenumberedLane(int peer, Lane lane) implements Lane {
    @Override
    public int index() {
      return lane.index();
    }

    @Override
    public long put(
        Region local, long localOffset, Region remote, long remoteOffset, long bytes, int counter) {
      return lane.put(local, localOffset, remote, remoteOffset, bytes, counter);
    }

    @Override
    public long add(int counter, long value) {
      return lane.add(counter, value);
    }

    @Override
    public boolean flush() {
      return lane.flush();
    }

    @Override
    public long accepted() {
      return lane.accepted();
    }

    @Override
    public long delivered() {
      return lane.delivered();
    }

    @Override
    public @Nullable LaneFailure failure() {
      LaneFailure failure = lane.failure();
      return failure == null ? null : numbered(peer, failure);
    }
  }

  /** A lane to a rank that the wire does not connect. */
  private record MissingLane(int peer, int index) implements Lane {
    @Override
    public long put(
        Region local, long localOffset, Region remote, long remoteOffset, long bytes, int counter) {
      return FAILED;
    }

    @Override
    public long add(int counter, long value) {
      return FAILED;
    }

    @Override
    public boolean flush() {
      return true;
    }

    @Override
    public long accepted() {
      return 0;
    }

    @Override
    public long delivered() {
      return 0;
    }

    @Override
    public LaneFailure failure() {
      return new LaneFailure(
          peer,
          index,
          LaneFailure.Cause.DEPARTED,
          "the rank was lost before the nodes were connected",
          0,
          0);
    }
  }
}
