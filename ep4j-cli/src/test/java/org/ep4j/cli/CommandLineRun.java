package org.ep4j.cli;

import java.io.PrintWriter;
import java.io.StringWriter;

/**
 * A run of the command line in this JVM.
 *
 * @param code its exit code
 * @param out what it printed
 * @param err what it complained about
 */
public record CommandLineRun(int code, String out, String err) {
  /** Runs it with these arguments. */
  public static CommandLineRun of(String... arguments) {
    StringWriter out = new StringWriter();
    StringWriter err = new StringWriter();
    int code =
        Main.commandLine(new PrintWriter(out, true), new PrintWriter(err, true)).execute(arguments);
    return new CommandLineRun(code, out.toString(), err.toString());
  }
}
