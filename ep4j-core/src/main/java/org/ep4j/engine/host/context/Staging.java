package org.ep4j.engine.host.context;

import org.ep4j.Tensor;
import org.ep4j.engine.host.layout.ScratchLayout;
import org.ep4j.memory.NativeMemory;

/**
 * Gives every input a native address: its own, or that of a copy in private memory for inputs on
 * the heap and for inputs in the rank's own region, which peers may write once this rank has
 * entered the next operation.
 */
public final class Staging {
  private final long scratch;
  private final long region;
  private final long regionBytes;

  /**
   * @param scratch address of the private memory, see {@link ScratchLayout}
   * @param region address of this rank's symmetric region
   */
  public Staging(long scratch, long region, long regionBytes) {
    this.scratch = scratch;
    this.region = region;
    this.regionBytes = regionBytes;
  }

  /** Whether the bytes are in this rank's symmetric memory, which all peers can access. */
  public boolean inRegion(Tensor tensor) {
    return tensor.nativeHost()
        && tensor.address() >= region
        && tensor.address() + tensor.byteSize() <= region + regionBytes;
  }

  /** Address of the bytes, copied to {@code offset} of the private memory if necessary. */
  public long stable(Tensor tensor, long offset) {
    return tensor.nativeHost() && !inRegion(tensor) ? tensor.address() : copied(tensor, offset);
  }

  /** Address of a copy of the bytes at {@code offset} of the private memory. */
  public long copied(Tensor tensor, long offset) {
    NativeMemory.copy(tensor.segment(), 0, scratch + offset, tensor.byteSize());
    return scratch + offset;
  }

  /** Address of {@code offset} in the private memory. */
  public long at(long offset) {
    return scratch + offset;
  }
}
