package org.ep4j.conformance;

import java.util.List;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import org.ep4j.WireName;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.TestFactory;

/**
 * Threads of ranks are interrupted in operations, all ranks call {@code reset()}, and the same
 * buffers continue to work. Subclasses name the engine and the world. The system property {@code
 * ep4j.seed} repeats a run.
 */
public abstract class InterruptKit {
  private final long seed = TestScale.seed();

  /** For subclasses. */
  protected InterruptKit() {}

  /** The engine, as in {@link org.ep4j.BufferConfig#engine()}. */
  protected abstract String engine();

  /** World that runs the ranks. */
  protected abstract World world();

  /** World sizes to test. */
  protected IntStream worldSizes() {
    return IntStream.of(2, 3, 4);
  }

  /** Ranks per node, 0 = all of them. */
  protected int ranksPerNode() {
    return 0;
  }

  /** The wire between nodes. */
  protected String wire() {
    return WireName.AUTO;
  }

  /** What these tests need besides the engine and this machine lacks; empty (default): nothing. */
  protected String missing() {
    return "";
  }

  @TestFactory
  final Stream<DynamicTest> buffersServeOnAfterInterrupts() {
    return Available.orSkipped(engine(), missing(), this::worlds);
  }

  private Stream<DynamicTest> worlds() {
    System.out.printf(
        "%s, %s over %s: -Dep4j.seed=%d%n", getClass().getSimpleName(), engine(), wire(), seed);
    List<String> arguments =
        new NodeArguments(ranksPerNode(), wire()).behind(List.of(engine(), String.valueOf(seed)));
    return worldSizes()
        .mapToObj(
            ranks ->
                DynamicTest.dynamicTest(
                    ranks + " ranks, seed " + seed,
                    () -> world().run(ranks, InterruptJob.class, arguments)));
  }
}
