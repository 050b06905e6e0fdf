package org.ep4j.cli;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;
import org.ep4j.cli.launch.JavaCommand;

/** The command line in a separate process. */
public final class CliProcess implements AutoCloseable {
  private static final Duration TIMEOUT = Duration.ofMinutes(2);

  /** A command of a test ends before the optimizing compiler pays. Its ranks inherit these. */
  private static final List<String> SHORT_LIVED =
      List.of(
          "-XX:TieredStopAtLevel=1",
          "-Dep4j.host.vectorBits=0",
          "-XX:+UseSerialGC",
          "-XX:+UseTransparentHugePages",
          "-Xlog:pagesize=off");

  /** Background processes of a script ignore SIGINT, and so do their children. */
  private static final List<String> DEFAULT_SIGNALS =
      List.of("env", "--default-signal=INT,HUP,TERM");

  private final Process process;
  private final Path out;
  private final Path err;

  private CliProcess(Process process, Path out, Path err) {
    this.process = process;
    this.out = out;
    this.err = err;
  }

  /** Starts the process; its output goes to files in {@code directory}. */
  public static CliProcess start(
      Path directory, Map<String, String> environment, String... arguments) throws IOException {
    return startIn(List.of(), directory, environment, arguments);
  }

  /**
   * Starts the process in an environment of its own.
   *
   * @param launcher a command that runs the one behind it, such as {@code unshare}
   */
  public static CliProcess startIn(
      List<String> launcher, Path directory, Map<String, String> environment, String... arguments)
      throws IOException {
    Path out = directory.resolve("stdout.txt");
    Path err = directory.resolve("stderr.txt");
    List<String> command = new ArrayList<>(DEFAULT_SIGNALS);
    command.addAll(launcher);
    command.addAll(command(arguments));
    ProcessBuilder builder = new ProcessBuilder(command);
    builder.environment().putAll(environment);
    builder.redirectOutput(out.toFile()).redirectError(err.toFile());
    return new CliProcess(builder.start(), out, err);
  }

  /** The program and the arguments of such a process, for a test that starts it in another way. */
  public static List<String> command(String... arguments) {
    return JavaCommand.again(SHORT_LIVED, List.of(arguments));
  }

  /** Runs the command line until it ends. */
  public static CommandLineRun run(Path directory, String... arguments)
      throws IOException, InterruptedException {
    try (CliProcess process = start(directory, Map.of(), arguments)) {
      return process.end();
    }
  }

  /** Waits until the process ends. */
  public CommandLineRun end() throws IOException, InterruptedException {
    return end(TIMEOUT);
  }

  /** Waits until the process ends, with a timeout, at which this method ends all its children. */
  public CommandLineRun end(Duration timeout) throws IOException, InterruptedException {
    if (!process.waitFor(timeout.toSeconds(), TimeUnit.SECONDS)) {
      String printed = out() + err();
      process.descendants().forEach(ProcessHandle::destroyForcibly);
      throw new IllegalStateException("still running; so far: " + printed);
    }
    return new CommandLineRun(process.exitValue(), out(), err());
  }

  /** Its standard output. */
  public String out() throws IOException {
    return Files.readString(out);
  }

  /** Its standard error, without messages of the JDK about modules and options. */
  public String err() throws IOException {
    return Files.readString(err)
        .replaceAll("(WARNING: Using incubator modules:|(NOTE: )?Picked up [A-Z_]+:).*\\R", "");
  }

  /** Waits until the process has printed a text. */
  public void awaitOut(String text) throws IOException, InterruptedException {
    long deadline = System.nanoTime() + TIMEOUT.toNanos();
    while (!out().contains(text)) {
      if (System.nanoTime() > deadline || !process.isAlive()) {
        throw new IllegalStateException("never printed '" + text + "': " + out() + err());
      }
      TimeUnit.MILLISECONDS.sleep(20);
    }
  }

  /** Its child processes that run Java: the ranks, but not the shell that watches over them. */
  public Stream<ProcessHandle> ranks() {
    return process.children().filter(child -> child.info().command().orElse("").endsWith("java"));
  }

  /** Sends a signal. */
  public void signal(String name) throws IOException, InterruptedException {
    String pid = String.valueOf(process.pid());
    Process kill = new ProcessBuilder("kill", "-" + name, pid).start();
    if (!kill.waitFor(10, TimeUnit.SECONDS) || kill.exitValue() != 0) {
      throw new IllegalStateException("kill -" + name + " " + pid + " failed");
    }
  }

  /** Waits until a process has ended; a zombie counts as ended. */
  public static void awaitGone(long pid) throws InterruptedException {
    Path status = Path.of("/proc/" + pid + "/stat");
    long deadline = System.nanoTime() + TIMEOUT.toNanos();
    while (runs(status)) {
      if (System.nanoTime() > deadline) {
        throw new IllegalStateException("process " + pid + " still runs");
      }
      TimeUnit.MILLISECONDS.sleep(20);
    }
  }

  private static boolean runs(Path status) {
    try {
      return !Files.readString(status).contains(") Z ");
    } catch (IOException e) {
      return false;
    }
  }

  @Override
  public void close() {
    process.destroyForcibly();
  }
}
