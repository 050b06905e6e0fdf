package org.ep4j.cli.text;

import java.io.Console;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;

/** Detects terminals. */
public final class Terminal {
  private Terminal() {}

  /** Whether standard output is a terminal. */
  public static boolean standardOutput() {
    return isTerminal(1);
  }

  /** Whether standard error is a terminal. */
  public static boolean standardError() {
    return isTerminal(2);
  }

  // System.console() tests input and output together; /proc tests each of them.
  @SuppressWarnings("SystemConsoleNull") // a JVM without the module jdk.internal.le has none
  private static boolean isTerminal(int descriptor) {
    Path link = Path.of("/proc/self/fd/" + descriptor);
    try {
      String target = Files.readSymbolicLink(link).toString();
      return target.startsWith("/dev/pts/")
          || target.startsWith("/dev/tty")
          || target.equals("/dev/console");
    } catch (IOException e) {
      Console console = System.console();
      return console != null && console.isTerminal();
    }
  }
}
