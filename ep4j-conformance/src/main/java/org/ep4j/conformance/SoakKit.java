package org.ep4j.conformance;

import java.util.List;
import org.ep4j.WireName;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;

/**
 * Many operations on one buffer. Subclasses name the engine and the world.
 *
 * <p>System properties: {@code ep4j.seed} repeats a run, {@code ep4j.soak} is the number of
 * operations of a long test.
 */
public abstract class SoakKit {
  private static final int SHORT = 2_000;
  private static final long LONG = 100_000;

  /** For subclasses. */
  protected SoakKit() {}

  /** The engine, as in {@link org.ep4j.BufferConfig#engine()}. */
  protected abstract String engine();

  /** World that runs the ranks, with time for the long test. */
  protected abstract World world();

  /** Number of ranks. */
  protected abstract int ranks();

  /** Ranks per node, 0 = all of them. */
  protected int ranksPerNode() {
    return 0;
  }

  /** The wire between nodes. */
  protected String wire() {
    return WireName.AUTO;
  }

  @Test
  final void everyByteOfEveryRoutingIsRight() {
    run(TestScale.part(SHORT));
  }

  /** Runs only with its tag. */
  @Test
  @Tag("soak")
  final void everyByteOfAHundredThousandOperationsIsRight() {
    run(Long.getLong("ep4j.soak", LONG));
  }

  private void run(long operations) {
    Available.orSkip(engine());
    long seed = TestScale.seed();
    System.out.printf(
        "%s, %s, %d ranks (%s): -Dep4j.seed=%d -Dep4j.soak=%d%n",
        getClass().getSimpleName(), engine(), ranks(), world().name(), seed, operations);
    world()
        .run(
            ranks(),
            RoutingSoakJob.class,
            new NodeArguments(ranksPerNode(), wire())
                .behind(List.of(engine(), String.valueOf(operations), String.valueOf(seed))));
  }
}
