package org.ep4j.cli.launch;

import java.io.IOException;
import java.io.InputStream;
import java.util.Arrays;

/**
 * Splits the output of a process into lines and forwards them without decoding. Runs on its own
 * thread until the stream ends.
 */
final class LineRelay implements Runnable {
  /** Longer lines are forwarded in parts. */
  static final int LONGEST = 1 << 16;

  private static final byte LINE_FEED = '\n';

  private final InputStream in;
  private final LineSink sink;
  private byte[] line = new byte[256];
  private int length;

  LineRelay(InputStream in, LineSink sink) {
    this.in = in;
    this.sink = sink;
  }

  @Override
  public void run() {
    byte[] chunk = new byte[8192];
    try (in) {
      for (int count = in.read(chunk); count >= 0; count = in.read(chunk)) {
        for (int i = 0; i < count; i++) {
          add(chunk[i]);
        }
      }
    } catch (IOException e) {
      // The process ended during the read: the lines before are already forwarded.
    }
    if (length > 0) {
      emit();
    }
  }

  private void add(byte next) {
    if (next == LINE_FEED || length == LONGEST) {
      emit();
    }
    if (next != LINE_FEED) {
      if (length == line.length) {
        line = Arrays.copyOf(line, 2 * length);
      }
      line[length++] = next;
    }
  }

  private void emit() {
    sink.line(line, length);
    length = 0;
  }
}
