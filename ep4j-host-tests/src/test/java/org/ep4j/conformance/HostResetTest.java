package org.ep4j.conformance;

import java.time.Duration;
import java.util.stream.IntStream;
import org.ep4j.conformance.world.ThreadWorld;
import org.ep4j.conformance.world.World;
import org.junit.jupiter.api.Nested;
import org.junit.jupiter.api.parallel.Execution;
import org.junit.jupiter.api.parallel.ExecutionMode;

/** Missed deadlines of the host engine. */
@Execution(ExecutionMode.CONCURRENT) // waits for deadlines
class HostResetTest {
  /** In one node. */
  @Nested
  class InANode extends ResetKit {
    @Override
    protected String engine() {
      return "host";
    }

    @Override
    protected World world() {
      return new ThreadWorld(Duration.ofMinutes(2));
    }

    @Override
    protected IntStream worldSizes() {
      return IntStream.of(3);
    }
  }

  /** Two ranks per node, over TCP. */
  @Nested
  class AcrossNodes extends ResetKit {
    @Override
    protected String engine() {
      return "host";
    }

    @Override
    protected World world() {
      return new ThreadWorld(Duration.ofMinutes(2));
    }

    /** Two ranks would be one node. */
    @Override
    protected IntStream worldSizes() {
      return IntStream.of(3, 4);
    }

    @Override
    protected int ranksPerNode() {
      return 2;
    }

    @Override
    protected String wire() {
      return "tcp";
    }
  }
}
