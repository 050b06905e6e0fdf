package org.ep4j.memory;

import java.nio.channels.FileChannel;
import java.nio.channels.FileLock;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;

/** Program that locks a file until another file disappears, which it makes when it has the lock. */
final class LockHolder {
  private LockHolder() {}

  public static void main(String[] arguments) throws Exception {
    Path sign = Path.of(arguments[1]);
    try (FileChannel channel = FileChannel.open(Path.of(arguments[0]), StandardOpenOption.WRITE);
        FileLock lock = channel.lock()) {
      Files.createFile(sign);
      while (lock.isValid() && Files.exists(sign)) {
        Thread.sleep(5);
      }
    }
  }
}
