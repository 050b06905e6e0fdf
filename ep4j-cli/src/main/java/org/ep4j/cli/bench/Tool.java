package org.ep4j.cli.bench;

import java.io.IOException;
import java.net.ServerSocket;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.function.IntFunction;
import java.util.function.ToDoubleFunction;
import org.ep4j.cli.launch.Agreement;
import org.ep4j.group.Group;
import org.jspecify.annotations.Nullable;

/**
 * A program that measures the way between two hosts: rank 1 starts its server, rank 0 its client.
 *
 * @param name of the program, on the PATH
 */
record Tool(String name) {
  private static final Duration LIMIT = Duration.ofSeconds(12);
  private static final int TRIES = 30;
  private static final Duration NAP = Duration.ofMillis(100);

  /**
   * Runs it; on both ranks.
   *
   * @param server arguments for a port
   * @param client arguments for a port; the host of rank 1 is put where one is {@code HOST}
   * @param read what the client's output says; 0 if nothing
   * @return what was read, on rank 0; 0 on rank 1, and where the program is missing or fails
   */
  double measure(
      Group group,
      Agreement agreement,
      IntFunction<List<String>> server,
      IntFunction<List<String>> client,
      ToDoubleFunction<String> read) {
    boolean missing = find() == null;
    if (agreement.max(missing ? 1 : 0) > 0) {
      return 0;
    }
    Process serving = null;
    try {
      int port = 0;
      if (group.rank() == 1) {
        port = freePort();
        serving = start(server.apply(port));
      }
      port = (int) agreement.numbers(new long[] {port})[1][0];
      String host = group.address(1).getHostAddress();
      List<String> arguments =
          client.apply(port).stream().map(text -> text.equals("HOST") ? host : text).toList();
      return group.rank() == 0 ? ask(arguments, read) : 0;
    } catch (IOException e) {
      return 0;
    } finally {
      agreement.barrier();
      if (serving != null) {
        serving.destroyForcibly();
      }
    }
  }

  /** Tries until the server listens. */
  private double ask(List<String> arguments, ToDoubleFunction<String> read) throws IOException {
    for (int i = 0; i < TRIES; i++) {
      Process client = start(arguments);
      try {
        // It writes a few KiB at its end, which a pipe holds.
        if (!client.waitFor(LIMIT.toMillis(), TimeUnit.MILLISECONDS)) {
          return 0;
        }
        String output = new String(client.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
        double found = read.applyAsDouble(output);
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

  private static int freePort() throws IOException {
    try (ServerSocket socket = new ServerSocket(0)) {
      return socket.getLocalPort();
    }
  }

  private Process start(List<String> arguments) throws IOException {
    Path program = find();
    if (program == null) {
      throw new IOException(name + " is not on the PATH");
    }
    List<String> command = new ArrayList<>(List.of(program.toString()));
    command.addAll(arguments);
    return new ProcessBuilder(command).redirectErrorStream(true).start();
  }

  private @Nullable Path find() {
    for (String directory : System.getenv().getOrDefault("PATH", "").split(":")) {
      Path program = Path.of(directory, name);
      if (Files.isExecutable(program)) {
        return program;
      }
    }
    return null;
  }
}
