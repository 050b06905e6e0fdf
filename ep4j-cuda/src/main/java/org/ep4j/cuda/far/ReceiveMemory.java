package org.ep4j.cuda.far;

import org.ep4j.wire.Region;

/** Memory of this rank that a wire's peers put into, and that kernels of this rank read. */
interface ReceiveMemory extends AutoCloseable {
  /** As the wire knows it. */
  Region region();

  /** As kernels see it. */
  long address();

  /** Zeroes it; nobody uses it now. */
  void clear();

  /** Sets a word; nobody else writes it now. */
  void setWord(long offset, long value);

  @Override
  void close();
}
