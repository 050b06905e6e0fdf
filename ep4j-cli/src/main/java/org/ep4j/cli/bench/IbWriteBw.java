package org.ep4j.cli.bench;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.ep4j.cli.launch.Agreement;
import org.ep4j.group.Group;
import org.ep4j.rdma.verbs.RdmaPort;
import org.ep4j.rdma.verbs.RdmaPorts;
import org.ep4j.rdma.verbs.RdmaSettings;
import org.jspecify.annotations.Nullable;

/**
 * The same bytes by ib_write_bw, where both ranks have it: rank 1 serves, rank 0 writes, over the
 * first port of each and as many queue pairs as the wire has on a port. It knows one port only.
 */
final class IbWriteBw {
  private static final int SECONDS = 4;
  private static final Duration LIMIT = Duration.ofSeconds(40);
  private static final int TRIES = 10;
  private static final int FIRST_PORT = 18_515;
  private static final double MIB = 1 << 20;

  private IbWriteBw() {}

  /**
   * Bytes a nanosecond of writes of some bytes; on both ranks.
   *
   * @return 0 on rank 1, and where the program is missing or fails
   */
  static double measure(Group group, Agreement agreement, long bytes, int queuePairs) {
    Path program = find();
    if (agreement.max(program == null ? 1 : 0) > 0 || program == null) {
      return 0;
    }
    Process process = null;
    try {
      List<String> command = command(program, RdmaPorts.of(group).getFirst(), bytes, queuePairs);
      if (group.rank() == 1) {
        process = start(command);
        agreement.barrier();
      } else {
        agreement.barrier();
        command.add(group.address(1).getHostAddress());
        return ask(command);
      }
    } catch (IOException e) {
      return 0;
    } finally {
      agreement.barrier();
      if (process != null) {
        process.destroyForcibly();
      }
    }
    return 0;
  }

  private static List<String> command(Path program, RdmaPort port, long bytes, int queuePairs) {
    RdmaSettings settings = RdmaSettings.of(System.getenv());
    int gid = settings.gidIndex() >= 0 ? settings.gidIndex() : port.usualAddress();
    List<String> command = new ArrayList<>();
    command.addAll(List.of(program.toString(), "-F", "-D", String.valueOf(SECONDS)));
    command.addAll(List.of("-d", port.device(), "-i", String.valueOf(port.number())));
    command.addAll(List.of("-x", String.valueOf(gid), "-q", String.valueOf(queuePairs)));
    command.addAll(List.of("-s", String.valueOf(bytes), "-p", String.valueOf(FIRST_PORT)));
    return command;
  }

  /** Tries until the server listens. */
  private static double ask(List<String> command) throws IOException {
    for (int i = 0; i < TRIES; i++) {
      Process client = start(command);
      try {
        // It writes a few KiB, which a pipe holds.
        if (!client.waitFor(LIMIT.toSeconds(), TimeUnit.SECONDS)) {
          return 0;
        }
        String output = new String(client.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
        double found = gbps(output);
        if (found > 0) {
          return found;
        }
        Thread.sleep(500);
      } catch (InterruptedException e) {
        Thread.currentThread().interrupt();
        return 0;
      } finally {
        client.destroyForcibly();
      }
    }
    return 0;
  }

  /** The average of its table, which counts in MiB/s; 0 if there is none. */
  static double gbps(String report) {
    return report
        .lines()
        .map(String::strip)
        .filter(line -> line.matches("[0-9]+ +[0-9]+( +[0-9.]+){3,}"))
        .mapToDouble(line -> Double.parseDouble(line.split(" +")[3]) * MIB / 1e9)
        .max()
        .orElse(0);
  }

  private static Process start(List<String> command) throws IOException {
    return new ProcessBuilder(command).redirectErrorStream(true).start();
  }

  private static @Nullable Path find() {
    for (String directory : System.getenv().getOrDefault("PATH", "").split(":")) {
      Path program = Path.of(directory, "ib_write_bw");
      if (Files.isExecutable(program)) {
        return program;
      }
    }
    return null;
  }
}
