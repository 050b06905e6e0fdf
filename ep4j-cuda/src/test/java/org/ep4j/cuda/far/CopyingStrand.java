package org.ep4j.cuda.far;

import java.util.ArrayList;
import java.util.List;
import org.ep4j.cuda.driver.CudaDevice;
import org.ep4j.cuda.driver.CudaEvent;
import org.ep4j.cuda.driver.CudaStream;
import org.ep4j.cuda.driver.ResourceStack;

/** Lanes whose copies go in one stream, so that they end in the order in which they were begun. */
final class CopyingStrand implements AutoCloseable {
  private final ResourceStack owned = new ResourceStack();
  private final CudaDevice device;
  private final CudaStream stream;
  private final CudaEvent done;
  private final List<CopyingLane> lanes = new ArrayList<>();

  /** Whether copies are under way that the event stands for. */
  private boolean pending;

  CopyingStrand(CudaDevice device) {
    this.device = device;
    // Streams of one priority may share a queue, and a kernel would wait for copies behind itself.
    stream = owned.own(CudaStream.createUrgent(device));
    done = owned.own(CudaEvent.create(device));
  }

  void add(CopyingLane lane) {
    lanes.add(lane);
  }

  int poll() {
    device.makeCurrent();
    if (pending && !done.query()) {
      return 0;
    }
    pending = false;
    int moved = 0;
    for (CopyingLane lane : lanes) {
      moved += lane.count() + lane.copy(stream);
    }
    if (moved > 0) {
      done.record(stream);
      pending = true;
    }
    return moved;
  }

  @Override
  public void close() {
    stream.synchronize();
    owned.close();
  }
}
