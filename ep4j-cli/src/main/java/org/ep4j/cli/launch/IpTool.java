package org.ep4j.cli.launch;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.ep4j.cli.CommandFailure;
import org.ep4j.cli.ExitCodes;
import org.ep4j.error.ErrorCode;
import org.ep4j.error.FileProblem;

/** The program {@code ip} of iproute2. */
final class IpTool {
  private static final int TIMEOUT_SECONDS = 10;

  private IpTool() {}

  /**
   * Result of a command.
   *
   * @param ok whether the command succeeded
   * @param text its output
   */
  record Answer(boolean ok, String text) {}

  /**
   * Runs {@code ip} with arguments.
   *
   * @throws CommandFailure if the program is missing, or does not end
   */
  static Answer run(String... arguments) throws InterruptedException {
    List<String> command = new ArrayList<>(List.of("ip"));
    command.addAll(Arrays.asList(arguments));
    return run(command, TIMEOUT_SECONDS);
  }

  /** Same as {@link #run(String...)} for a whole command. */
  static Answer run(List<String> command, int seconds) throws InterruptedException {
    try {
      // A file: reading a pipe would outlast the deadline.
      Path output = Files.createTempFile("ep4j-ip", ".txt");
      try {
        boolean ok = run(command, seconds, output);
        return new Answer(ok, new String(Files.readAllBytes(output), StandardCharsets.UTF_8));
      } finally {
        Files.delete(output);
      }
    } catch (IOException e) {
      throw new UncheckedIOException(
          ErrorCode.FILE_WRITE.message(
              "a temporary file for the output of ip: " + FileProblem.of(e)),
          e);
    }
  }

  private static boolean run(List<String> command, int seconds, Path output)
      throws InterruptedException {
    Process ip;
    try {
      ip =
          new ProcessBuilder(command)
              .redirectErrorStream(true)
              .redirectOutput(output.toFile())
              .start();
    } catch (IOException e) {
      throw new CommandFailure(
          ErrorCode.IP_TOOL_MISSING,
          ExitCodes.UNAVAILABLE,
          "--hosts needs the program ip (" + e + "): install the package iproute2",
          e);
    }
    if (!ip.waitFor(seconds, TimeUnit.SECONDS)) {
      ip.destroyForcibly();
      throw new CommandFailure(
          ErrorCode.IP_TOOL_TIMEOUT,
          ExitCodes.UNAVAILABLE,
          "--hosts: '%s' did not end within %d s: run it by hand"
              .formatted(String.join(" ", command), seconds));
    }
    return ip.exitValue() == 0;
  }
}
