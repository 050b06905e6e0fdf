package org.ep4j.cuda.engine.failure;

import org.ep4j.cuda.driver.CudaDevice;
import org.ep4j.cuda.driver.CudaStream;
import org.ep4j.cuda.driver.DeviceCopies;
import org.ep4j.cuda.driver.PinnedMemory;
import org.ep4j.cuda.driver.ResourceStack;
import org.ep4j.memory.NativeMemory;

/**
 * Single words of any rank's memory, accessed while kernels run: a separate stream does not wait
 * for the kernels, unlike the default stream. Used by one thread at a time.
 */
public final class RemoteWords implements StaleRankFence.Words {
  /** Page-locked memory. */
  public static final long BYTES = Long.BYTES;

  private final ResourceStack owned = new ResourceStack();
  private final CudaStream stream;
  private final PinnedMemory word;

  public RemoteWords(CudaDevice device) {
    boolean complete = false;
    try {
      stream = owned.own(CudaStream.create(device));
      word = owned.own(PinnedMemory.allocate(device, BYTES));
      complete = true;
    } finally {
      if (!complete) {
        owned.close();
      }
    }
  }

  @Override
  public long read(long address) {
    DeviceCopies.toHostBeside(word.segment(), address, stream);
    return NativeMemory.getLongAcquire(word.hostAddress());
  }

  @Override
  public void write(long address, long value) {
    NativeMemory.putLongRelease(word.hostAddress(), value);
    DeviceCopies.toDeviceBeside(address, word.segment(), stream);
  }

  @Override
  public void close() {
    owned.close();
  }
}
