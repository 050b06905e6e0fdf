package org.ep4j.bench.wire;

import java.io.IOException;
import java.lang.ProcessBuilder.Redirect;
import java.net.ServerSocket;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.function.IntFunction;
import java.util.function.ToDoubleFunction;
import org.ep4j.bench.CommandAgreement;
import org.ep4j.group.Group;
import org.jspecify.annotations.Nullable;

/**
 * A program that measures the network between two hosts: rank 1 starts its server, rank 0 its
 * client.
 *
 * @param name of the program, on the PATH
 * @param limit timeout
 */
record Tool(String name, Duration limit) {
  private static final Duration USUAL_LIMIT = Duration.ofSeconds(12);
  private static final Duration PAUSE = Duration.ofMillis(100);

  /** Arguments of one of several instances, whose server listens on a port. */
  interface Arguments {
    List<String> of(int copy, int port);
  }

  Tool(String name) {
    this(name, USUAL_LIMIT);
  }

  /**
   * Runs the program; called on both ranks.
   *
   * @param server arguments for a port
   * @param client arguments for a port; {@code HOST} is replaced by the host of rank 1
   * @param read parser of the output of the client; returns 0 without a result
   * @return the result on rank 0; 0 on rank 1, and if the program is missing or fails
   */
  double measure(
      Group group,
      CommandAgreement agreement,
      IntFunction<List<String>> server,
      IntFunction<List<String>> client,
      ToDoubleFunction<String> read) {
    return sum(
        group,
        agreement,
        1,
        (copy, port) -> server.apply(port),
        (copy, port) -> client.apply(port),
        read);
  }

  /**
   * Like {@link #measure}, with several instances at the same time.
   *
   * @return the sum of the results; 0 also if one instance fails
   */
  double sum(
      Group group,
      CommandAgreement agreement,
      int copies,
      Arguments server,
      Arguments client,
      ToDoubleFunction<String> read) {
    boolean missing = find() == null;
    if (agreement.max(missing ? 1 : 0) > 0) {
      return 0;
    }
    List<Process> serving = new ArrayList<>();
    try {
      long[] ports = new long[copies];
      if (group.rank() == 1) {
        ports = freePorts(copies);
        for (int copy = 0; copy < copies; copy++) {
          serving.add(start(server.of(copy, (int) ports[copy]), Redirect.DISCARD));
        }
      }
      long[] listening = agreement.numbers(ports)[1];
      return group.rank() == 0
          ? ask(group.address(1).getHostAddress(), listening, client, read)
          : 0;
    } catch (IOException e) {
      return 0;
    } finally {
      agreement.barrier();
      serving.forEach(Process::destroyForcibly);
    }
  }

  private double ask(String host, long[] ports, Arguments client, ToDoubleFunction<String> read) {
    List<Callable<Double>> clients = new ArrayList<>();
    for (int copy = 0; copy < ports.length; copy++) {
      List<String> arguments =
          client.of(copy, (int) ports[copy]).stream()
              .map(text -> text.equals("HOST") ? host : text)
              .toList();
      clients.add(() -> ask(arguments, read));
    }
    ExecutorService threads = Executors.newFixedThreadPool(ports.length);
    try {
      double sum = 0;
      for (Future<Double> answer :
          threads.invokeAll(clients, 2 * limit.toMillis(), TimeUnit.MILLISECONDS)) {
        double found = answer.state() == Future.State.SUCCESS ? answer.resultNow() : 0;
        if (found == 0) {
          return 0;
        }
        sum += found;
      }
      return sum;
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
      return 0;
    } finally {
      threads.shutdownNow();
    }
  }

  /** Starts the client until the server listens. */
  private double ask(List<String> arguments, ToDoubleFunction<String> read) throws IOException {
    // A file: a full pipe would stop the program.
    Path output = Files.createTempFile("ep4j-tool", ".txt");
    try {
      return ask(arguments, output, read);
    } finally {
      Files.delete(output);
    }
  }

  private double ask(List<String> arguments, Path output, ToDoubleFunction<String> read)
      throws IOException {
    long end = System.nanoTime() + limit.toNanos();
    while (System.nanoTime() - end < 0) {
      Process client = start(arguments, Redirect.to(output.toFile()));
      try {
        if (!client.waitFor(end - System.nanoTime(), TimeUnit.NANOSECONDS)) {
          return 0;
        }
        double found =
            read.applyAsDouble(new String(Files.readAllBytes(output), StandardCharsets.UTF_8));
        if (found > 0) {
          return found;
        }
        Thread.sleep(PAUSE);
      } catch (InterruptedException e) {
        Thread.currentThread().interrupt();
        return 0;
      } finally {
        client.destroyForcibly();
      }
    }
    return 0;
  }

  /** Different free ports. */
  private static long[] freePorts(int count) throws IOException {
    List<ServerSocket> sockets = new ArrayList<>();
    try {
      for (int i = 0; i < count; i++) {
        sockets.add(new ServerSocket(0));
      }
      return sockets.stream().mapToLong(ServerSocket::getLocalPort).toArray();
    } finally {
      for (ServerSocket socket : sockets) {
        socket.close();
      }
    }
  }

  private Process start(List<String> arguments, Redirect output) throws IOException {
    Path program = find();
    if (program == null) {
      throw new IOException(name + " is not on the PATH");
    }
    List<String> command = new ArrayList<>(List.of(program.toString()));
    command.addAll(arguments);
    return new ProcessBuilder(command).redirectErrorStream(true).redirectOutput(output).start();
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
