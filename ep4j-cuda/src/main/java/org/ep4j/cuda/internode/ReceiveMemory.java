package org.ep4j.cuda.internode;

import org.ep4j.wire.Region;

/** Memory of this rank that peers put into through a wire, and that kernels of this rank read. */
interface ReceiveMemory extends AutoCloseable {
  /** Region of the wire. */
  Region region();

  /** Device address. */
  long address();

  /** Zeroes the memory; there is no concurrent use. */
  void clear();

  /** Sets a word; there is no concurrent writer. */
  void setWord(long offset, long value);

  @Override
  void close();
}
