package org.ep4j.rdma.verbs;

import java.time.Duration;
import java.util.stream.IntStream;
import org.ep4j.config.BufferConfig;
import org.ep4j.config.WireName;
import org.ep4j.conformance.InterruptKit;
import org.ep4j.conformance.KillKit;
import org.ep4j.conformance.ReadmitKit;
import org.ep4j.conformance.ResetKit;
import org.ep4j.conformance.world.ThreadWorld;
import org.ep4j.conformance.world.World;
import org.junit.jupiter.api.Nested;

/** Resets, interrupts, kills and readmissions of an engine with two ranks a node over verbs. */
abstract class RecoveryOverVerbsKit {
  static final int RANKS_PER_NODE = 2;

  /** The engine, as in {@link BufferConfig#engine()}. */
  abstract String engine();

  @Nested
  class Resets extends ResetKit {
    @Override
    protected String engine() {
      return RecoveryOverVerbsKit.this.engine();
    }

    @Override
    protected World world() {
      return new ThreadWorld(Duration.ofMinutes(2));
    }

    @Override
    protected int ranksPerNode() {
      return RANKS_PER_NODE;
    }

    @Override
    protected String wire() {
      return WireName.VERBS;
    }
  }

  @Nested
  class Interrupts extends InterruptKit {
    @Override
    protected String engine() {
      return RecoveryOverVerbsKit.this.engine();
    }

    @Override
    protected World world() {
      return new ThreadWorld(Duration.ofMinutes(2));
    }

    @Override
    protected int ranksPerNode() {
      return RANKS_PER_NODE;
    }

    @Override
    protected String wire() {
      return WireName.VERBS;
    }

    /** Two ranks would be one node. */
    @Override
    protected IntStream worldSizes() {
      return IntStream.of(3);
    }
  }

  @Nested
  class Kills extends KillKit {
    @Override
    protected String engine() {
      return RecoveryOverVerbsKit.this.engine();
    }

    @Override
    protected int ranksPerNode() {
      return RANKS_PER_NODE;
    }

    @Override
    protected String wire() {
      return WireName.VERBS;
    }

    /** Each rank is killed once. */
    @Override
    protected int kills() {
      return 3;
    }
  }

  @Nested
  class Readmissions extends ReadmitKit {
    @Override
    protected String engine() {
      return RecoveryOverVerbsKit.this.engine();
    }

    @Override
    protected int ranksPerNode() {
      return RANKS_PER_NODE;
    }

    @Override
    protected String wire() {
      return WireName.VERBS;
    }
  }
}
