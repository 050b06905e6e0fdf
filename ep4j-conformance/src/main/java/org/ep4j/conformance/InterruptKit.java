package org.ep4j.conformance;

import java.util.stream.Stream;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.TestFactory;

/**
 * Threads of ranks are interrupted in operations, all ranks call {@code reset()}, and the same
 * buffers continue to work.
 */
public abstract class InterruptKit extends SeededJobKit {
  /** For subclasses. */
  protected InterruptKit() {}

  @TestFactory
  final Stream<DynamicTest> buffersServeOnAfterInterrupts() {
    return worlds(InterruptJob.class);
  }
}
