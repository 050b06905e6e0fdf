package org.ep4j.cli;

import java.io.PrintWriter;
import java.io.StringWriter;

/**
 * A run of the command line in this JVM.
 *
 * @param code exit code
 * @param out standard output
 * @param err standard error
 */
public record CommandLineRun(int code, String out, String err) {
  /** Runs the command line with these arguments. */
  public static CommandLineRun of(String... arguments) {
    StringWriter out = new StringWriter();
    StringWriter err = new StringWriter();
    int code =
        Main.commandLine(new PrintWriter(out, true), new PrintWriter(err, true)).execute(arguments);
    return new CommandLineRun(code, out.toString(), err.toString());
  }
}
