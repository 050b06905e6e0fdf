package org.ep4j.cli;

import java.io.ByteArrayOutputStream;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;

/**
 * A run of the command line in this JVM. A {@link CliProcess} takes a second of processor time, so
 * it is only for what needs a process: ranks that are processes, signals, variables of the
 * environment, the exit code of the JVM.
 *
 * @param code exit code
 * @param out standard output
 * @param err standard error
 */
public record CommandLineRun(int code, String out, String err) {
  /**
   * Runs the command line with these arguments. Its ranks print to the standard streams of the JVM,
   * which this method replaces meanwhile, so no test class of this module runs beside another.
   */
  public static CommandLineRun of(String... arguments) {
    ByteArrayOutputStream out = new ByteArrayOutputStream();
    ByteArrayOutputStream err = new ByteArrayOutputStream();
    PrintStream oldOut = System.out;
    PrintStream oldErr = System.err;
    System.setOut(new PrintStream(out, true, StandardCharsets.UTF_8));
    System.setErr(new PrintStream(err, true, StandardCharsets.UTF_8));
    int code;
    try {
      code = Main.run(arguments);
    } finally {
      System.setOut(oldOut);
      System.setErr(oldErr);
    }
    return new CommandLineRun(
        code, out.toString(StandardCharsets.UTF_8), err.toString(StandardCharsets.UTF_8));
  }
}
