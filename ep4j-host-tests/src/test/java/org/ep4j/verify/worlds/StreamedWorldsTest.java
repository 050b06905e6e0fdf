package org.ep4j.verify.worlds;

import static org.assertj.core.api.Assertions.assertThat;

import java.util.List;
import org.ep4j.memory.NonTemporalCopy;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/**
 * Random worlds as in {@link RandomWorldsTest} whose few bytes always, or never, use non-temporal
 * stores.
 */
class StreamedWorldsTest {
  private static final int WORLDS = 40;

  @ParameterizedTest
  @ValueSource(booleans = {true, false})
  void everyResultMatchesTheOracle(boolean streaming) throws Exception {
    long seed = Long.getLong("ep4j.seed", 1);
    System.out.println("StreamedWorldsTest: seed " + seed);
    List<String> lines =
        ForkedJvm.run(
            Program.class,
            List.of(
                "--add-modules=jdk.incubator.vector",
                "--enable-native-access=ALL-UNNAMED",
                "-D" + NonTemporalCopy.PROPERTY + "=" + streaming),
            List.of(Long.toString(seed), Integer.toString(WORLDS)));
    String expected =
        "streaming " + (streaming && NonTemporalCopy.available()) + ", " + WORLDS + " worlds";
    assertThat(lines).as("seed %d", seed).contains(expected);
  }

  /** A program that runs worlds. */
  static final class Program {
    private Program() {}

    public static void main(String[] args) {
      RandomWorldsTest.run(Long.parseLong(args[0]), Integer.parseInt(args[1]));
      System.out.println("streaming " + NonTemporalCopy.pays(1) + ", " + args[1] + " worlds");
    }
  }
}
