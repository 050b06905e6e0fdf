package org.ep4j.cuda.driver.calls;

import static org.assertj.core.api.Assertions.assertThat;

import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.Linker;
import java.lang.foreign.ValueLayout;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Map;
import org.ep4j.cuda.driver.ForkedJvm;
import org.junit.jupiter.api.Test;

/** Processes with an exit handler that fails. */
class NativeExitTest {
  private static final int ABORTED = 128 + 6;

  /**
   * Arguments: value of the property ({@code none} for no value), and the exit status; without a
   * status, main returns.
   */
  @SuppressWarnings("restricted") // registers a failing exit handler
  static final class Program {
    private Program() {}

    public static void main(String[] arguments) throws Throwable {
      Linker linker = Linker.nativeLinker();
      int failed =
          (int)
              linker
                  .downcallHandle(
                      linker.defaultLookup().findOrThrow("on_exit"),
                      FunctionDescriptor.of(
                          ValueLayout.JAVA_INT, ValueLayout.JAVA_LONG, ValueLayout.JAVA_LONG))
                  .invokeExact(linker.defaultLookup().findOrThrow("abort").address(), 0L);
      if (failed != 0) {
        throw new IllegalStateException("on_exit accepts no more handlers");
      }
      Runtime.getRuntime().addShutdownHook(new Thread(() -> System.out.println("hook")));
      if (!arguments[0].equals("none")) {
        System.setProperty(NativeExit.PROPERTY, arguments[0]);
      }
      boolean first = NativeExit.skipDestructors();
      boolean second = NativeExit.skipDestructors();
      System.out.println("allowed " + first + " " + second);
      if (arguments.length > 1) {
        System.exit(Integer.parseInt(arguments[1]));
      }
    }
  }

  private static int status(String... arguments) throws Exception {
    Process process = ForkedJvm.start(Program.class, Map.of(), List.of(arguments));
    try (var reader = process.inputReader(StandardCharsets.UTF_8)) {
      boolean allowed = arguments[0].equals("true");
      assertThat(reader.lines()).contains("hook", "allowed " + allowed + " " + allowed);
    }
    return process.waitFor();
  }

  @Test
  void exitHandlersOfLibrariesAreSkippedAndTheStatusStays() throws Exception {
    assertThat(status("true", "7")).isEqualTo(7);
    assertThat(status("true")).isZero();
  }

  @Test
  void exitHandlersOfTheProgramRunUnlessItAllowsToSkipThem() throws Exception {
    assertThat(status("none", "7")).isEqualTo(ABORTED);
    assertThat(status("false", "7")).isEqualTo(ABORTED);
  }
}
