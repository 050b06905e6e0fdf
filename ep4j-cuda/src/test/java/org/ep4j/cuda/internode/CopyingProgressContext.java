package org.ep4j.cuda.internode;

import java.util.ArrayList;
import java.util.List;
import java.util.SortedMap;
import java.util.TreeMap;
import org.ep4j.cuda.driver.CudaDevice;
import org.ep4j.cuda.driver.CudaEvent;
import org.ep4j.cuda.driver.CudaStream;
import org.ep4j.cuda.driver.ResourceStack;

/**
 * Lanes whose copies run in rounds: all reads, an event, the writes of each target GPU after it.
 * The next round begins when all writes of the last one are done.
 */
final class CopyingProgressContext implements AutoCloseable {
  private final ResourceStack owned = new ResourceStack();
  private final CudaDevice device;
  private final CudaStream stream;
  private final CudaEvent read;
  private final SortedMap<Integer, Target> targets = new TreeMap<>();

  /** Whether copies are in flight that the targets' events cover. */
  private boolean pending;

  CopyingProgressContext(CudaDevice device) {
    this.device = device;
    // Streams of one priority may share a queue, where a kernel would wait for copies after itself.
    stream = owned.own(CudaStream.createUrgent(device));
    read = owned.own(CudaEvent.create(device));
  }

  void add(CopyingLane lane) {
    targets.computeIfAbsent(lane.target(), this::target).lanes.add(lane);
  }

  private Target target(int ordinal) {
    if (ordinal == device.ordinal()) {
      return new Target(device, stream, owned.own(CudaEvent.create(device)), new ArrayList<>());
    }
    // Not the device of the peer's wire, which the peer may close first.
    CudaDevice other = owned.own(CudaDevice.open(ordinal));
    return new Target(
        other,
        owned.own(CudaStream.createUrgent(other)),
        owned.own(CudaEvent.create(other)),
        new ArrayList<>());
  }

  int poll() {
    device.makeCurrent();
    if (pending && !targets.values().stream().allMatch(target -> target.done.query())) {
      return 0;
    }
    pending = false;
    int counted = 0;
    int begun = 0;
    for (Target target : targets.values()) {
      for (CopyingLane lane : target.lanes) {
        counted += lane.count();
        begun += lane.read(stream);
      }
    }
    if (begun > 0) {
      read.record(stream);
      targets.values().forEach(target -> target.write(read));
      device.makeCurrent();
      pending = true;
    }
    return counted + begun;
  }

  @Override
  public void close() {
    stream.synchronize();
    targets.values().forEach(target -> target.stream.synchronize());
    owned.close();
  }

  /**
   * Lanes to one GPU.
   *
   * @param stream of that GPU
   * @param done end of the writes of a round
   */
  private record Target(
      CudaDevice device, CudaStream stream, CudaEvent done, List<CopyingLane> lanes) {
    void write(CudaEvent read) {
      device.makeCurrent();
      stream.waitFor(read);
      lanes.forEach(lane -> lane.write(stream));
      done.record(stream);
    }
  }
}
