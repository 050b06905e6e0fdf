package org.ep4j.cuda.internode;

import java.util.ArrayList;
import java.util.List;
import org.ep4j.cuda.driver.CudaDevice;
import org.ep4j.cuda.driver.CudaEvent;
import org.ep4j.cuda.driver.CudaStream;
import org.ep4j.cuda.driver.ResourceStack;

/** Lanes whose copies use one stream, so that they end in order. */
final class CopyingProgressContext implements AutoCloseable {
  private final ResourceStack owned = new ResourceStack();
  private final CudaDevice device;
  private final CudaStream stream;
  private final CudaEvent done;
  private final List<CopyingLane> lanes = new ArrayList<>();

  /** Whether copies are in flight that the event covers. */
  private boolean pending;

  CopyingProgressContext(CudaDevice device) {
    this.device = device;
    // Streams of one priority may share a queue, where a kernel would wait for copies after itself.
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
