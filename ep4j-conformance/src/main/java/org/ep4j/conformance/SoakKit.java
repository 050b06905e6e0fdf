package org.ep4j.conformance;

import java.util.List;
import org.ep4j.conformance.world.Available;
import org.ep4j.conformance.world.NodeArguments;
import org.ep4j.conformance.world.TestScale;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;

/**
 * Many operations on one buffer. Subclasses name the engine and the world, which has time for the
 * long test.
 *
 * <p>System properties: {@code ep4j.seed} repeats a run, {@code ep4j.soak} is the number of
 * operations of a long test.
 */
public abstract class SoakKit extends NodesKit {
  private static final int SHORT = 2_000;
  private static final long LONG = 100_000;

  /** For subclasses. */
  protected SoakKit() {}

  /** Number of ranks. */
  protected abstract int ranks();

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
    Available.orSkip(engine(), missing());
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
