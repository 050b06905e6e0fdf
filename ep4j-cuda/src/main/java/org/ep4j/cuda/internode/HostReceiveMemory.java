package org.ep4j.cuda.internode;

import java.lang.foreign.ValueLayout;
import org.ep4j.cuda.driver.CudaDevice;
import org.ep4j.cuda.driver.RegisteredMemory;
import org.ep4j.wire.Region;
import org.ep4j.wire.Wire;

/** Page-locked memory of the wire on the host; the wire frees it. */
final class HostReceiveMemory implements ReceiveMemory {
  private final Region region;
  private final RegisteredMemory registered;

  private HostReceiveMemory(Region region, RegisteredMemory registered) {
    this.region = region;
    this.registered = registered;
  }

  /** Locks what {@link Wire#allocate} has returned. */
  static HostReceiveMemory of(CudaDevice device, Region region) {
    return new HostReceiveMemory(region, RegisteredMemory.of(device, region.segment()));
  }

  @Override
  public Region region() {
    return region;
  }

  @Override
  public long address() {
    return registered.deviceAddress();
  }

  @Override
  public void clear() {
    region.segment().fill((byte) 0);
  }

  @Override
  public void setWord(long offset, long value) {
    region.segment().set(ValueLayout.JAVA_LONG, offset, value);
  }

  @Override
  public void close() {
    registered.close();
  }
}
