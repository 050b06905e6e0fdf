package org.ep4j.conformance;

import java.util.List;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import org.ep4j.conformance.world.Available;
import org.ep4j.conformance.world.NodeArguments;
import org.ep4j.conformance.world.RankJob;
import org.ep4j.conformance.world.TestScale;
import org.junit.jupiter.api.DynamicTest;

/**
 * Runs a job that a seed varies in worlds of several sizes. Subclasses name the engine and the
 * world. The system property {@code ep4j.seed} repeats a run.
 */
public abstract class SeededJobKit extends NodesKit {
  private final long seed = TestScale.seed();

  /** For subclasses. */
  protected SeededJobKit() {}

  /** World sizes to test. */
  protected IntStream worldSizes() {
    return IntStream.of(2, 3, 4);
  }

  /**
   * One test a world size.
   *
   * @param job its arguments are the engine and the seed; then {@link NodeArguments}
   */
  final Stream<DynamicTest> worlds(Class<? extends RankJob> job) {
    return Available.orSkipped(engine(), missing(), () -> run(job));
  }

  private Stream<DynamicTest> run(Class<? extends RankJob> job) {
    System.out.printf(
        "%s, %s over %s: -Dep4j.seed=%d%n", getClass().getSimpleName(), engine(), wire(), seed);
    List<String> arguments =
        new NodeArguments(ranksPerNode(), wire()).behind(List.of(engine(), String.valueOf(seed)));
    return worldSizes()
        .mapToObj(
            ranks ->
                DynamicTest.dynamicTest(
                    ranks + " ranks, seed " + seed, () -> world().run(ranks, job, arguments)));
  }
}
