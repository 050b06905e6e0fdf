package org.ep4j.conformance;

import java.util.List;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import org.ep4j.config.WireName;
import org.ep4j.conformance.round.Overflow;
import org.ep4j.conformance.world.Available;
import org.ep4j.conformance.world.NodeArguments;
import org.ep4j.conformance.world.TestScale;
import org.ep4j.conformance.world.World;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.TestFactory;

/**
 * Requirements on every engine, in all shapes. Subclasses name the engine and the world.
 *
 * <p>System properties: {@code ep4j.seed} repeats a run, {@code ep4j.cases} is the number of random
 * cases over all world sizes, {@code ep4j.ranks} restricts them to one world size.
 */
public abstract class EngineKit {
  private static final int MAX_RANKS = 8;

  /** For subclasses. */
  protected EngineKit() {}

  /** The engine, as in {@link org.ep4j.config.BufferConfig#engine()}. */
  protected abstract String engine();

  /** World that runs the ranks. */
  protected abstract World world();

  /** Whether the engine has low-latency operations. */
  protected boolean lowLatency() {
    return true;
  }

  /** Whether the engine has high-throughput operations, between nodes if there is a wire. */
  protected boolean highThroughput() {
    return true;
  }

  /** Whether ranks can be masked, between nodes if there is a wire. */
  protected boolean masks() {
    return true;
  }

  /** Kind of wire between nodes; empty (default): all ranks are in one node. */
  protected String wire() {
    return "";
  }

  /** What this machine lacks besides the engine; the tests are then skipped with that reason. */
  protected String missing() {
    return "";
  }

  /** World sizes to test. */
  protected IntStream worldSizes() {
    return IntStream.rangeClosed(1, MAX_RANKS);
  }

  /**
   * Number of random cases over all world sizes; a part of them by default, see {@link TestScale}.
   */
  protected int cases() {
    return 120;
  }

  @TestFactory
  final Stream<DynamicTest> randomCasesMatchTheOracle() {
    return Available.orSkipped(engine(), missing(), this::randomCases);
  }

  @TestFactory
  final Stream<DynamicTest> dispatchesWithoutRoomAreRefusedOnAllRanks() {
    return highThroughput()
        ? Available.orSkipped(engine(), missing(), this::overflows)
        : Stream.empty();
  }

  private Stream<DynamicTest> overflows() {
    boolean between = !wire().isEmpty();
    return worldSizes()
        .filter(ranks -> ranks > 1 && ranks <= Overflow.MAX_RANKS)
        .mapToObj(
            ranks -> {
              NodeArguments nodes =
                  new NodeArguments(between ? ranks / 2 : 0, between ? wire() : WireName.AUTO);
              List<String> arguments =
                  nodes.behind(List.of(engine(), String.valueOf(TestScale.seed())));
              return DynamicTest.dynamicTest(
                  ranks + " ranks, no room",
                  () -> world().run(ranks, OverflowJob.class, arguments));
            });
  }

  private Stream<DynamicTest> randomCases() {
    long seed = TestScale.seed();
    Integer only = Integer.getInteger("ep4j.ranks");
    int[] sizes = only == null ? worldSizes().toArray() : new int[] {only};
    int cases =
        Math.ceilDiv(Integer.getInteger("ep4j.cases", TestScale.part(cases())), sizes.length);
    List<String> arguments =
        List.of(
            engine(),
            String.valueOf(seed),
            String.valueOf(cases),
            String.valueOf(lowLatency()),
            wire(),
            String.valueOf(highThroughput()),
            String.valueOf(masks()));
    System.out.printf(
        "%s, %s, %s: -Dep4j.seed=%d, %d cases of %s ranks%n",
        getClass().getSimpleName(),
        engine(),
        world().name(),
        seed,
        cases,
        IntStream.of(sizes).boxed().toList());
    return IntStream.of(sizes)
        .mapToObj(
            ranks ->
                DynamicTest.dynamicTest(
                    ranks + " ranks, seed " + seed,
                    () -> world().run(ranks, PropertyJob.class, arguments)));
  }
}
