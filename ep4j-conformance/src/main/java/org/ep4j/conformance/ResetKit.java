package org.ep4j.conformance;

import java.util.stream.Stream;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.TestFactory;

/**
 * A rank misses the deadline of an operation, all ranks call {@code reset()}, and the same buffers
 * continue to work.
 */
public abstract class ResetKit extends SeededJobKit {
  /** For subclasses. */
  protected ResetKit() {}

  @TestFactory
  final Stream<DynamicTest> buffersServeOnAfterAMissedDeadline() {
    return worlds(ResetJob.class);
  }
}
