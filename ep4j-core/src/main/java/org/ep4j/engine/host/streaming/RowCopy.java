package org.ep4j.engine.host.streaming;

import java.lang.foreign.MemorySegment;
import org.ep4j.Tensor;
import org.ep4j.engine.host.exec.WorkerTeam;
import org.ep4j.memory.NativeMemory;

/** Copies the head of a tensor into native memory with all workers. */
public final class RowCopy implements WorkerTeam.Task {
  private MemorySegment source = MemorySegment.NULL;
  private long target;
  private long bytes;

  /** Copies {@code length} bytes of {@code tensor} to {@code address}. */
  public void copy(Tensor tensor, long address, long length, WorkerTeam team) {
    source = tensor.segment();
    target = address;
    bytes = length;
    if (source.isNative()) {
      team.run(this);
    } else {
      run(0, 1);
    }
    source = MemorySegment.NULL;
  }

  @Override
  public void run(int worker, int workers) {
    long from = bytes / workers * worker;
    long to = worker == workers - 1 ? bytes : bytes / workers * (worker + 1);
    if (source.isNative()) {
      // By address: a confined segment may belong to the calling thread.
      NativeMemory.copy(source.address() + from, target + from, to - from);
    } else {
      NativeMemory.copy(source, from, target + from, to - from);
    }
  }
}
