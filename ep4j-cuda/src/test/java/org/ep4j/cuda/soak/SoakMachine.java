package org.ep4j.cuda.soak;

import java.lang.foreign.MemorySegment;
import org.ep4j.DType;
import org.ep4j.DeviceStream;
import org.ep4j.Tensor;
import org.jspecify.annotations.Nullable;

/** Where one rank makes its inputs and checks its results: memory, kernels and their order. */
interface SoakMachine extends AutoCloseable {
  /** Memory of the machine, at least as long as what is asked of it. */
  interface Block {
    long address();

    /** Its beginning as a tensor. */
    Tensor as(DType dtype, long... shape);

    void write(MemorySegment source);

    /** Reads its beginning; what was launched has ended. */
    void read(MemorySegment target);
  }

  /** Memory that lives as long as the machine. */
  Block allocate(long bytes);

  /** Runs a kernel after everything that was launched before. The words are copied. */
  void launch(SoakKernel kernel, MemorySegment words);

  /** Where operations run in the order of the kernels, or null if calls return when all is done. */
  @Nullable DeviceStream stream();

  /** Whether so many ranks share a driver's context. */
  boolean isSharedBy(int ranks);

  /** Waits for everything that was launched. */
  void finish();

  @Override
  void close();
}
