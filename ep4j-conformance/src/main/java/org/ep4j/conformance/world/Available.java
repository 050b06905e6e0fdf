package org.ep4j.conformance.world;

import java.util.ServiceLoader;
import java.util.function.Supplier;
import java.util.stream.Stream;
import org.ep4j.engine.EngineProvider;
import org.junit.jupiter.api.Assumptions;
import org.junit.jupiter.api.DynamicTest;

/** Whether an engine can run here: if not, its tests are skipped with the reason. */
public final class Available {
  private Available() {}

  /** The tests, or one skipped test instead. */
  public static Stream<DynamicTest> orSkipped(String engine, Supplier<Stream<DynamicTest>> tests) {
    return orSkipped(engine, "", tests);
  }

  /**
   * The same if the tests need more than the engine.
   *
   * @param missing what this machine lacks of that
   */
  public static Stream<DynamicTest> orSkipped(
      String engine, String missing, Supplier<Stream<DynamicTest>> tests) {
    String problem = problem(engine, missing);
    if (problem.isEmpty()) {
      return tests.get();
    }
    System.out.println("skipped: " + problem);
    return Stream.of(DynamicTest.dynamicTest("engine " + engine, () -> Assumptions.abort(problem)));
  }

  /** Skips the calling test if the engine cannot run. */
  public static void orSkip(String engine) {
    orSkip(engine, "");
  }

  /** The same if the test needs more than the engine. */
  public static void orSkip(String engine, String missing) {
    String problem = problem(engine, missing);
    Assumptions.assumeTrue(problem.isEmpty(), problem);
  }

  private static String problem(String engine, String missing) {
    String problem = problem(engine);
    return problem.isEmpty() ? missing : problem;
  }

  private static String problem(String engine) {
    for (EngineProvider provider :
        ServiceLoader.load(EngineProvider.class, EngineProvider.class.getClassLoader())) {
      if (provider.name().equals(engine)) {
        String problem = provider.unavailableBecause();
        return problem.isEmpty() ? "" : "engine '" + engine + "': " + problem;
      }
    }
    throw new AssertionError("no engine '" + engine + "' is available for its tests");
  }
}
