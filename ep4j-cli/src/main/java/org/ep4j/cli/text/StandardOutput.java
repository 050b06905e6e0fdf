package org.ep4j.cli.text;

import java.io.BufferedOutputStream;
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.PrintStream;
import org.jspecify.annotations.Nullable;

/**
 * Standard output that remembers its first failure, which {@link PrintStream} swallows: a command
 * whose result is lost on a full disk must not end with success.
 */
public final class StandardOutput extends FileOutputStream {
  private static final int BUFFER = 8192;

  /** Written by threads that print; read after all printing. */
  private volatile @Nullable IOException failure;

  private StandardOutput() {
    super(FileDescriptor.out);
  }

  /** Replaces {@link System#out}. */
  public static StandardOutput install() {
    StandardOutput out = new StandardOutput();
    System.setOut(
        new PrintStream(new BufferedOutputStream(out, BUFFER), true, System.out.charset()));
    return out;
  }

  /** The first failure; null if all output was written. */
  public @Nullable IOException failure() {
    return failure;
  }

  @Override
  public void write(int b) throws IOException {
    write(new byte[] {(byte) b}, 0, 1);
  }

  @Override
  public void write(byte[] bytes, int from, int length) throws IOException {
    try {
      super.write(bytes, from, length);
    } catch (IOException e) {
      if (failure == null) {
        failure = e;
      }
      throw e;
    }
  }
}
