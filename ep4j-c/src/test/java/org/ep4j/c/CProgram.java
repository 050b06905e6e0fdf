package org.ep4j.c;

import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.concurrent.TimeUnit;
import java.util.jar.Attributes;
import java.util.jar.JarOutputStream;
import java.util.jar.Manifest;
import org.ep4j.config.EngineName;
import org.ep4j.conformance.world.HostCompiler;
import org.ep4j.group.Group;

/** A C program of the test resources, compiled, and processes that run it. */
final class CProgram {
  private static final int SECONDS = 120;
  private static final String JAR = "ep4j-c-test.jar";

  private final Path program;
  private final Path installation;
  private final Path directory;

  /**
   * What a process did.
   *
   * @param status its exit status
   * @param output what it wrote to both streams
   */
  record Ended(int status, String output) {}

  private CProgram(Path directory, Path program, Path installation) {
    this.directory = directory;
    this.program = program;
    this.installation = installation;
  }

  /**
   * Compiles a program; skips the test without a compiler.
   *
   * @param files sources, copied from the test resources if they are not in the directory; the
   *     first one is compiled
   */
  static CProgram compile(Path directory, String... files)
      throws IOException, InterruptedException {
    HostCompiler.require("to compile C programs");
    header(directory);
    for (String file : files) {
      if (Files.exists(directory.resolve(file))) {
        continue;
      }
      try (InputStream in = CProgram.class.getResourceAsStream(file)) {
        Files.write(directory.resolve(file), Objects.requireNonNull(in, file).readAllBytes());
      }
    }
    Path program = directory.resolve("program");
    HostCompiler.compile(
        directory.resolve(files[0]),
        program,
        "-x",
        "c",
        "-std=c99",
        "-Wall",
        "-Wextra",
        "-Wpedantic",
        "-Wno-missing-field-initializers",
        "-Werror",
        "-pthread");
    return new CProgram(directory, program, installation(directory));
  }

  /** Writes {@code ep4j.h} into a directory. */
  static void header(Path directory) throws IOException {
    try (InputStream in = Abi.class.getResourceAsStream("ep4j.h")) {
      Files.write(directory.resolve("ep4j.h"), Objects.requireNonNull(in, "ep4j.h").readAllBytes());
    }
  }

  /** A directory for {@code EP4J_HOME}, whose jar names the classes of this JVM. */
  private static Path installation(Path directory) throws IOException {
    Path home = directory.resolve("installation");
    Path lib = Files.createDirectories(home.resolve("lib"));
    Manifest manifest = new Manifest();
    manifest.getMainAttributes().put(Attributes.Name.MANIFEST_VERSION, "1.0");
    manifest.getMainAttributes().put(Attributes.Name.CLASS_PATH, classPath());
    try (OutputStream out = Files.newOutputStream(lib.resolve(JAR))) {
      new JarOutputStream(out, manifest).close();
    }
    return home;
  }

  private static String classPath() {
    List<String> places = new ArrayList<>();
    for (Class<?> type : List.of(Abi.class, Group.class)) {
      places.add(type.getProtectionDomain().getCodeSource().getLocation().toString());
    }
    return String.join(" ", places);
  }

  /** The environment of a process without a group. */
  Map<String, String> environment() {
    Map<String, String> variables = new HashMap<>();
    String engine = System.getProperty("ep4j.c.engine", EngineName.HOST);
    variables.put("EP4J_TEST_ENGINE", engine);
    // Other engines are not on the class path of these tests, but in the caller's installation.
    String given = engine.equals(EngineName.HOST) ? null : System.getenv("EP4J_HOME");
    variables.put("EP4J_HOME", given == null ? installation.toString() : given);
    // Several ranks on one GPU: the driver then runs the work of each in a queue of its own.
    variables.put("CUDA_DEVICE_MAX_CONNECTIONS", "32");
    variables.put("EP4J_JAVA_HOME", System.getProperty("java.home"));
    variables.put(
        "EP4J_JVM_OPTIONS",
        "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:+UseTransparentHugePages"
            + " -Dep4j.host.vectorBits=0");
    return variables;
  }

  /** The jar that names the classes of this JVM. */
  Path jar() {
    return installation.resolve("lib").resolve(JAR);
  }

  /** Runs one process. */
  Ended run(Map<String, String> variables, String... arguments)
      throws IOException, InterruptedException {
    return run(List.of(variables), arguments).getFirst();
  }

  /** Runs processes side by side, one for each environment, and waits until all have ended. */
  List<Ended> run(List<Map<String, String>> environments, String... arguments)
      throws IOException, InterruptedException {
    List<Process> processes = new ArrayList<>();
    List<Path> outputs = new ArrayList<>();
    try {
      for (Map<String, String> variables : environments) {
        outputs.add(Files.createTempFile(directory, "output", ".txt"));
        processes.add(start(variables, outputs.getLast(), arguments));
      }
      List<Ended> ended = new ArrayList<>();
      for (int i = 0; i < processes.size(); i++) {
        Process process = processes.get(i);
        if (!process.waitFor(SECONDS, TimeUnit.SECONDS)) {
          throw new AssertionError(
              "process " + i + " did not end:\n" + Files.readString(outputs.get(i)));
        }
        ended.add(new Ended(process.exitValue(), Files.readString(outputs.get(i))));
      }
      return ended;
    } finally {
      processes.forEach(Process::destroyForcibly);
    }
  }

  /** Whether a variable is about this process; where a GPU has its libraries and kernels is not. */
  private static boolean isOfThisProcess(String name) {
    return name.startsWith("EP4J_")
        && (!name.startsWith("EP4J_CUDA_") || name.equals("EP4J_CUDA_DEVICE"));
  }

  private Process start(Map<String, String> variables, Path output, String... arguments)
      throws IOException {
    List<String> command = new ArrayList<>(List.of(program.toString()));
    command.addAll(List.of(arguments));
    ProcessBuilder builder =
        new ProcessBuilder(command).redirectErrorStream(true).redirectOutput(output.toFile());
    builder.environment().keySet().removeIf(CProgram::isOfThisProcess);
    builder.environment().putAll(variables);
    return builder.start();
  }
}
