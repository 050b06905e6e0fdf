package org.ep4j.conformance.wire;

import java.util.ArrayList;
import java.util.List;
import java.util.SplittableRandom;
import java.util.stream.Stream;
import org.ep4j.conformance.world.TestScale;
import org.ep4j.conformance.world.World;
import org.junit.jupiter.api.Assumptions;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestFactory;

/**
 * Requirements on every wire. Subclasses name the wire and the world.
 *
 * <p>System properties: {@code ep4j.seed} repeats a run, {@code ep4j.campaigns} is the number of
 * runs in which a rank dies, {@code ep4j.puts} that of the small puts.
 */
public abstract class WireKit {
  /** For subclasses. */
  protected WireKit() {}

  /** The wire and its options. */
  protected abstract WireSetup setup();

  /** World that runs the ranks. */
  protected abstract World world();

  /** Number of ranks; at least 3, so that a loss leaves uninvolved ranks. */
  protected int ranks() {
    return 3;
  }

  /**
   * Whether another test runs the full kit on the same wire with other options. Then only {@code
   * -Dep4j.full=true} runs this test under faults and with ranks that die.
   */
  protected boolean variant() {
    return false;
  }

  /** Number of runs in which a rank dies; a part of them by default, see {@link TestScale}. */
  protected int campaigns() {
    return world().costly() ? 2 : 40;
  }

  @TestFactory
  final Stream<DynamicTest> everyPropertyHolds() {
    return checks(setup());
  }

  @TestFactory
  final Stream<DynamicTest> everyPropertyHoldsUnderFaults() {
    variantsOnlyInFull();
    WireSetup setup = setup();
    return checks(setup.withFaults(setup.seed()));
  }

  private Stream<DynamicTest> checks(WireSetup setup) {
    System.out.printf("%s, %s: -Dep4j.seed=%d%n", getClass().getSimpleName(), setup, setup.seed());
    List<String> names = List.copyOf(WireJob.CHECKS.keySet());
    if (world().costly()) {
      return Stream.of(
          DynamicTest.dynamicTest("all, seed " + setup.seed(), () -> run(setup, names)));
    }
    return WireJob.CHECKS.keySet().stream()
        .map(
            name ->
                DynamicTest.dynamicTest(
                    name + ", seed " + setup.seed(), () -> run(setup, List.of(name))));
  }

  @Test
  final void aRankThatDiesAtAnyStepIsNamedAndNothingIsTorn() {
    variantsOnlyInFull();
    WireSetup setup = setup();
    int campaigns = Integer.getInteger("ep4j.campaigns", TestScale.part(campaigns()));
    System.out.printf(
        "%s, %s: -Dep4j.seed=%d -Dep4j.campaigns=%d%n",
        getClass().getSimpleName(), setup.wire(), setup.seed(), campaigns);
    SplittableRandom seeds = new SplittableRandom(setup.seed());
    for (int i = 0; i < campaigns; i++) {
      world().run(ranks(), WireKillJob.class, setup.withFaults(seeds.nextLong()).arguments());
    }
  }

  /** Runs only with its tag: it takes gigabytes. */
  @Test
  @Tag("soak")
  final void aPutOfTwoGibibytesAndOneByteArrives() {
    Assumptions.assumeTrue(enoughMemory(), "10 GiB are needed");
    WireSetup setup = setup();
    List<String> arguments = new ArrayList<>(setup.arguments());
    arguments.add(WireJob.HUGE);
    world().run(2, WireJob.class, arguments);
  }

  private void variantsOnlyInFull() {
    if (variant()) {
      TestScale.onlyInFull("another test of the same wire runs it");
    }
  }

  private static boolean enoughMemory() {
    var system =
        (com.sun.management.OperatingSystemMXBean)
            java.lang.management.ManagementFactory.getOperatingSystemMXBean();
    return system.getFreeMemorySize() > 10L << 30;
  }

  private void run(WireSetup setup, List<String> names) {
    List<String> arguments = new ArrayList<>(setup.arguments());
    arguments.addAll(names);
    world().run(ranks(), WireJob.class, arguments);
  }
}
