package org.ep4j.group;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.BufferedReader;
import java.io.IOException;
import java.net.URI;
import java.net.URISyntaxException;
import java.net.URL;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;

/** A {@link RankProgram} in a separate JVM. */
final class RankProcess implements AutoCloseable {
  private static final long LONGEST_ANSWER_SECONDS = 30;

  private final Process process;
  private final LinkedBlockingQueue<String> answers = new LinkedBlockingQueue<>();

  RankProcess(Map<String, String> variables, String... arguments) throws IOException {
    String java = Path.of(System.getProperty("java.home"), "bin", "java").toString();
    String path =
        root(Group.class) + System.getProperty("path.separator") + root(RankProgram.class);
    List<String> command =
        new ArrayList<>(
            List.of(
                java,
                "-XX:TieredStopAtLevel=1",
                "-Dep4j.host.vectorBits=0",
                "-XX:+UseSerialGC",
                "-XX:+UseTransparentHugePages",
                "-Xlog:pagesize=off",
                "-Xmx64m",
                "-cp",
                path,
                RankProgram.class.getName()));
    command.addAll(List.of(arguments));
    ProcessBuilder builder = new ProcessBuilder(command);
    builder.environment().putAll(variables);
    builder.redirectErrorStream(true);
    process = builder.start();
    Thread.ofVirtual().start(this::read);
  }

  /** The directory or archive of a class; in a patched module each class has its own. */
  private static String root(Class<?> type) {
    String name = "/" + type.getName().replace('.', '/') + ".class";
    URL url = Objects.requireNonNull(type.getResource(name));
    String text = url.toString();
    try {
      String root = text.substring(0, text.length() - name.length());
      return text.startsWith("jar:")
          ? Path.of(new URI(root.substring("jar:".length(), root.length() - 1))).toString()
          : Path.of(new URI(root)).toString();
    } catch (URISyntaxException e) {
      throw new AssertionError(e);
    }
  }

  private void read() {
    try (BufferedReader reader = process.inputReader(StandardCharsets.UTF_8)) {
      String line;
      while ((line = reader.readLine()) != null) {
        if (line.startsWith("> ")) {
          answers.add(line.substring(2));
        } else {
          System.out.println("rank process " + process.pid() + ": " + line);
        }
      }
    } catch (IOException e) {
      // Killed.
    }
    answers.add("(ended)");
  }

  RankProcess send(String command) throws IOException {
    process.outputWriter(StandardCharsets.UTF_8).write(command + "\n");
    process.outputWriter(StandardCharsets.UTF_8).flush();
    return this;
  }

  String answer() throws InterruptedException {
    String answer = answers.poll(LONGEST_ANSWER_SECONDS, TimeUnit.SECONDS);
    assertThat(answer).as("answer of a rank process").isNotNull();
    return Objects.requireNonNull(answer);
  }

  String ask(String command) throws IOException, InterruptedException {
    return send(command).answer();
  }

  /** {@code kill -9}: no goodbye. */
  void kill() throws InterruptedException {
    process.destroyForcibly();
    process.waitFor();
  }

  /** Stops the process without ending it: it is silent, and its connections stay open. */
  void stop() throws IOException, InterruptedException {
    signal("STOP");
  }

  void resume() throws IOException, InterruptedException {
    signal("CONT");
  }

  private void signal(String signal) throws IOException, InterruptedException {
    Process kill = new ProcessBuilder("kill", "-" + signal, Long.toString(process.pid())).start();
    assertThat(kill.waitFor()).isZero();
  }

  @Override
  public void close() {
    process.destroyForcibly();
  }
}
