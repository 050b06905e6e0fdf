package org.ep4j.cli.launch;

import java.io.PrintStream;
import java.nio.charset.StandardCharsets;

/** Receives the output of one rank line by line; called by one thread per stream. */
@FunctionalInterface
public interface LineSink {
  /**
   * Receives a line.
   *
   * @param line bytes of the line, without its end, from 0 to {@code length}; valid during the call
   */
  void line(byte[] line, int length);

  /** Prints each line with a prefix; lines of several ranks do not mix. */
  static LineSink printing(PrintStream out, String prefix) {
    byte[] start = prefix.getBytes(StandardCharsets.UTF_8);
    return (line, length) -> {
      synchronized (out) {
        out.write(start, 0, start.length);
        out.write(line, 0, length);
        out.write('\n');
        out.flush();
      }
    };
  }
}
