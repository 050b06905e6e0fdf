package org.ep4j.cuda.soak;

import java.lang.foreign.MemorySegment;
import org.ep4j.execution.DeviceStream;
import org.ep4j.tensor.DType;
import org.ep4j.tensor.Tensor;
import org.jspecify.annotations.Nullable;

/** Where a rank creates its inputs and checks its results: memory, kernels and their order. */
interface SoakMachine extends AutoCloseable {
  /** Memory of the machine, at least as large as requested. */
  interface Block {
    long address();

    /** A tensor at the start of the block. */
    Tensor as(DType dtype, long... shape);

    void write(MemorySegment source);

    /** Reads the start of the block; launched work has ended. */
    void read(MemorySegment target);
  }

  /** Memory that lives as long as the machine. */
  Block allocate(long bytes);

  /** Runs a kernel after all earlier launches. The words are copied. */
  void launch(SoakKernel kernel, MemorySegment words);

  /**
   * Stream of operations that run in order with the kernels; null if calls return after completion.
   */
  @Nullable DeviceStream stream();

  /** Whether that many ranks share a driver context. */
  boolean isSharedBy(int ranks);

  /** Waits for all launches. */
  void finish();

  @Override
  void close();
}
