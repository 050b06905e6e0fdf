package org.ep4j.group;

import java.io.FileInputStream;
import java.io.IOException;
import java.util.ArrayList;
import java.util.List;

/** All descriptors that this process may still open, until it is closed. */
public final class TakenDescriptors implements AutoCloseable {
  private final List<FileInputStream> taken = new ArrayList<>();

  /** Takes them. */
  @SuppressWarnings("InfiniteLoopStatement") // ends with the descriptors
  public TakenDescriptors() {
    try {
      while (true) {
        taken.add(new FileInputStream("/dev/null"));
      }
    } catch (IOException e) {
      // None is left.
    }
  }

  /** Gives them back. */
  public void release() throws IOException {
    for (FileInputStream file : taken) {
      file.close();
    }
    taken.clear();
  }

  @Override
  public void close() throws IOException {
    release();
  }
}
