package org.ep4j.group;

import java.io.FileInputStream;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.Stream;

/** All descriptors that this process may still open, until it is closed. */
public final class TakenDescriptors implements AutoCloseable {
  private final List<FileInputStream> taken = new ArrayList<>();

  /**
   * Loads all classes of groups and of errors: a program could not read their files any more
   * without descriptors.
   */
  public static void loadClasses() throws Exception {
    Path root = Path.of(Group.class.getProtectionDomain().getCodeSource().getLocation().toURI());
    if (Files.isRegularFile(root)) {
      // An archive stays open.
      return;
    }
    List<Path> files = new ArrayList<>();
    for (String folder : List.of("org/ep4j/group", "org/ep4j/error")) {
      try (Stream<Path> all = Files.walk(root.resolve(folder))) {
        all.filter(file -> file.toString().endsWith(".class")).forEach(files::add);
      }
    }
    for (Path file : files) {
      String name = root.relativize(file).toString().replace('/', '.');
      if (!name.endsWith("-info.class")) {
        Class.forName(name.substring(0, name.length() - ".class".length()));
      }
    }
  }

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
    release(taken.size());
  }

  /** Gives some of them back. */
  public void release(int some) throws IOException {
    for (int i = 0; i < some; i++) {
      taken.removeLast().close();
    }
  }

  @Override
  public void close() throws IOException {
    release();
  }
}
