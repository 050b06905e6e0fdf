package org.ep4j.rdma.softverbs;

import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.util.ArrayList;
import java.util.List;
import java.util.Objects;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.ep4j.conformance.world.HostCompiler;
import org.ep4j.rdma.verbs.ports.RdmaPorts;
import org.ep4j.rdma.verbs.ports.RdmaSettings;

/**
 * The emulated RDMA devices of the Surefire execution {@code soft-verbs}: a library in the place of
 * libibverbs, which the tests build, and a directory in the place of {@code /sys}. See {@code
 * docs/design/soft-verbs.md}.
 */
public final class SoftVerbs {
  /** Devices are {@code soft_a0} and so on: host and port. */
  public static final String PREFIX = "soft_";

  private static final String LIBRARY = "libsoft_verbs.so";
  private static final String ALL = "all.cpp";
  private static final String SCRIPT = "fabric.sh";
  private static final String HOSTS = "2";
  private static final String PORTS = "2";

  private static final List<String> HEADERS =
      List.of(
          "abi.h",
          "bucket.h",
          "engine.h",
          "fabric.h",
          "gpu.h",
          "memory.h",
          "packets.h",
          "ports.h",
          "queues.h",
          "states.h");
  private static final List<String> SOURCES =
      List.of(
          "engine.cpp",
          "exports.cpp",
          "fabric.cpp",
          "gpu.cpp",
          "memory.cpp",
          "ports.cpp",
          "queues.cpp",
          "receiver.cpp",
          "sender.cpp",
          "states.cpp",
          "sysfs.cpp");

  /** Initialised once. */
  private static final class Built {
    static final boolean DONE = build();
  }

  private SoftVerbs() {}

  /** Whether the devices of this process are the emulated ones. */
  public static boolean isSelected() {
    return library().endsWith(LIBRARY);
  }

  /**
   * Builds the library and the fabric, once. Call it before the first use of the bindings.
   *
   * @return false without a compiler
   */
  public static boolean isBuilt() {
    return isSelected() && Built.DONE;
  }

  private static String library() {
    return System.getenv().getOrDefault(RdmaSettings.LIBRARY, "");
  }

  private static boolean build() {
    if (!HostCompiler.present()) {
      return false;
    }
    try {
      Path library = Path.of(library());
      Path directory = Objects.requireNonNull(library.getParent());
      Files.createDirectories(directory);
      List<String> names =
          Stream.of(HEADERS, SOURCES, List.of(SCRIPT)).flatMap(List::stream).toList();
      if (!Files.exists(library) || !stored(names, directory)) {
        // An interrupted build leaves no library.
        Files.deleteIfExists(library);
        store(names, directory);
        compile(directory, library);
      }
      script("make", HOSTS, PORTS);
      return true;
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
      throw new IllegalStateException(e);
    }
  }

  private static boolean stored(List<String> names, Path directory) throws IOException {
    for (String name : names) {
      Path file = directory.resolve(name);
      if (!Files.exists(file) || !Files.readString(file).equals(text(name))) {
        return false;
      }
    }
    return true;
  }

  /** Writes the sources, and a file that includes them: one compilation takes half the time. */
  private static void store(List<String> names, Path directory) throws IOException {
    for (String name : names) {
      Files.writeString(directory.resolve(name), text(name));
    }
    String all = SOURCES.stream().map("#include \"%s\"\n"::formatted).collect(Collectors.joining());
    Files.writeString(directory.resolve(ALL), all);
  }

  private static String text(String name) throws IOException {
    try (InputStream in = SoftVerbs.class.getResourceAsStream(name)) {
      return new String(Objects.requireNonNull(in, name).readAllBytes(), StandardCharsets.UTF_8);
    }
  }

  private static void compile(Path directory, Path library)
      throws IOException, InterruptedException {
    Path unfinished = directory.resolve(LIBRARY + ".new");
    HostCompiler.compile(
        directory.resolve(ALL),
        unfinished,
        "-std=c++17",
        "-O1",
        "-shared",
        "-fPIC",
        "-fvisibility=hidden",
        "-pthread");
    Files.move(unfinished, library, StandardCopyOption.ATOMIC_MOVE);
  }

  /**
   * Changes a cable, with the words of {@code rxe-link}; {@code pair 2 b0} breaks the last but one
   * of the queue pairs that the port has connected.
   */
  public static void link(String... operation) throws IOException, InterruptedException {
    switch (operation[0]) {
      case "up", "down" -> script(operation[0], operation[1]);
      case "loss" -> script("cable", operation[2], operation[1], "0", "0");
      case "delay" -> script("cable", operation[2], "0", operation[1], "0");
      case "pair" -> script("pair", operation[2], operation[1]);
      case "clear" -> script("cable", operation[1], "0", "0", "0");
      default -> throw new IllegalArgumentException(operation[0]);
    }
  }

  /**
   * Makes a port refuse a state of its queue pairs.
   *
   * @param port for example {@code b0}
   * @param state number in verbs; 0 for none
   */
  public static void refuse(String port, int state) throws IOException, InterruptedException {
    script("refuse", port, String.valueOf(state));
  }

  /** A line for each connection that queue pairs of a port have made, in their order. */
  public static List<String> connections(String port) throws IOException {
    return Files.readAllLines(
        RdmaPorts.DEVICES.resolve(PREFIX + port).resolve("ports/1/connections"));
  }

  private static void script(String step, String... arguments)
      throws IOException, InterruptedException {
    Path directory = Objects.requireNonNull(Path.of(library()).getParent());
    List<String> command =
        new ArrayList<>(
            List.of("sh", directory.resolve(SCRIPT).toString(), step, System.getenv("SYSFS_PATH")));
    command.addAll(List.of(arguments));
    HostCompiler.Outcome outcome = HostCompiler.run(command, 60);
    if (outcome.status() != 0) {
      throw new IllegalStateException(outcome.output());
    }
  }
}
