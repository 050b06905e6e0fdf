package org.ep4j.cli.launch;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.ep4j.cli.CommandFailure;
import org.ep4j.cli.ExitCodes;
import org.ep4j.error.ErrorCode;

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
    try {
      Process ip = new ProcessBuilder(command).redirectErrorStream(true).start();
      String text = new String(ip.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
      if (!ip.waitFor(TIMEOUT_SECONDS, TimeUnit.SECONDS)) {
        ip.destroyForcibly();
        throw new CommandFailure(
            ErrorCode.IP_TOOL_TIMEOUT,
            ExitCodes.UNAVAILABLE,
            "--hosts: '%s' did not end within %d s: run it by hand"
                .formatted(String.join(" ", command), TIMEOUT_SECONDS));
      }
      return new Answer(ip.exitValue() == 0, text);
    } catch (IOException e) {
      throw new CommandFailure(
          ErrorCode.IP_TOOL_MISSING,
          ExitCodes.UNAVAILABLE,
          "--hosts needs the program ip (" + e + "): install the package iproute2",
          e);
    }
  }
}
