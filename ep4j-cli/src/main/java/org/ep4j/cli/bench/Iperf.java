package org.ep4j.cli.bench;

import java.io.IOException;
import java.net.ServerSocket;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.ep4j.cli.launch.Agreement;
import org.ep4j.group.Group;
import org.jspecify.annotations.Nullable;

/**
 * The same bytes by iperf3, where both ranks have it: rank 1 serves, rank 0 sends, in writes of 1
 * MiB.
 */
final class Iperf {
  private static final int SECONDS = 2;
  private static final Duration LIMIT = Duration.ofSeconds(SECONDS + 10L);
  private static final int TRIES = 30;
  private static final Duration NAP = Duration.ofMillis(100);
  private static final Pattern RECEIVED =
      Pattern.compile("\"sum_received\":\\s*\\{[^}]*\"bits_per_second\":\\s*([0-9.eE+]+)");

  private Iperf() {}

  /**
   * Bytes a nanosecond over some connections; on both ranks.
   *
   * @return 0 on rank 1, and where iperf3 is missing or fails
   */
  static double measure(Group group, Agreement agreement, int connections) {
    boolean missing = find() == null;
    if (agreement.max(missing ? 1 : 0) > 0) {
      return 0;
    }
    Process server = null;
    try {
      int port = 0;
      if (group.rank() == 1) {
        port = freePort();
        server = start(List.of("-s", "-1", "-p", String.valueOf(port)));
      }
      port = (int) agreement.numbers(new long[] {port})[1][0];
      return group.rank() == 0 ? send(group, port, connections) : 0;
    } catch (IOException e) {
      return 0;
    } finally {
      agreement.barrier();
      if (server != null) {
        server.destroyForcibly();
      }
    }
  }

  private static int freePort() throws IOException {
    try (ServerSocket socket = new ServerSocket(0)) {
      return socket.getLocalPort();
    }
  }

  /** Tries until the server listens. */
  private static double send(Group group, int port, int connections) throws IOException {
    for (int i = 0; i < TRIES; i++) {
      String host = group.address(1).getHostAddress();
      Process client =
          start(
              List.of(
                  "-c",
                  host,
                  "-p",
                  String.valueOf(port),
                  "-P",
                  String.valueOf(connections),
                  "-t",
                  String.valueOf(SECONDS),
                  "-l",
                  "1M",
                  "-J"));
      try {
        // It writes a few KiB at its end, which a pipe holds.
        if (!client.waitFor(LIMIT.toMillis(), TimeUnit.MILLISECONDS)) {
          return 0;
        }
        String output = new String(client.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
        double found = gbps(output);
        if (found > 0) {
          return found;
        }
        Thread.sleep(NAP);
      } catch (InterruptedException e) {
        Thread.currentThread().interrupt();
        return 0;
      } finally {
        client.destroyForcibly();
      }
    }
    return 0;
  }

  /** What iperf3's report says was received; 0 if it says nothing. */
  static double gbps(String report) {
    Matcher matcher = RECEIVED.matcher(report);
    return matcher.find() ? Double.parseDouble(matcher.group(1)) / 8e9 : 0;
  }

  private static Process start(List<String> arguments) throws IOException {
    Path program = find();
    if (program == null) {
      throw new IOException("iperf3 is not on the PATH");
    }
    List<String> command = new java.util.ArrayList<>(List.of(program.toString()));
    command.addAll(arguments);
    return new ProcessBuilder(command).redirectErrorStream(true).start();
  }

  private static @Nullable Path find() {
    for (String directory : System.getenv().getOrDefault("PATH", "").split(":")) {
      Path program = Path.of(directory, "iperf3");
      if (Files.isExecutable(program)) {
        return program;
      }
    }
    return null;
  }
}
