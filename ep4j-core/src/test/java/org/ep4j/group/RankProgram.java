package org.ep4j.group;

import static java.nio.charset.StandardCharsets.UTF_8;
import static java.time.Duration.ofMillis;
import static java.util.Objects.requireNonNull;
import static java.util.stream.Collectors.joining;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Arrays;
import org.ep4j.group.rendezvous.Rendezvous;
import org.jspecify.annotations.Nullable;

/**
 * One rank as a process: joins as its environment defines, then executes the commands of its
 * standard input, with one line of answer per line. With the arguments {@code host} and a number of
 * ranks it hosts a rendezvous for them instead, like a launcher; with {@code again} it replaces a
 * rank.
 */
final class RankProgram {
  private RankProgram() {}

  public static void main(String[] arguments) throws IOException {
    BufferedReader commands =
        new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    if (arguments.length == 2 && arguments[0].equals("host")) {
      host(Integer.parseInt(arguments[1]), commands);
      return;
    }
    Group group;
    try {
      group =
          arguments.length == 1 && arguments[0].equals("again")
              ? Group.rejoin(requireNonNull(LaunchEnvironment.of(System.getenv()).config()))
              : Group.fromEnvironment();
    } catch (RuntimeException e) {
      say(e);
      return;
    }
    say("joined " + group.rank() + "/" + group.size() + " " + group.jobId());
    String command;
    while ((command = commands.readLine()) != null) {
      String[] words = command.split(" ", -1);
      int number = words.length > 1 ? Integer.parseInt(words[1]) : 0;
      try {
        switch (words[0]) {
          case "barrier" -> {
            group.barrier(Duration.ofMillis(number));
            say("passed");
          }
          case "readmit" -> {
            say("took in " + Arrays.toString(group.readmit(Duration.ofMillis(number))));
          }
          case "gather" -> say(gather(group, number));
          case "claimed" -> {
            while (!group.hasReplacement(number)) {
              Thread.sleep(1);
            }
            say("claimed");
          }
          case "gone" -> say(awaitDeath(group, number));
          case "survivors" -> {
            group = group.survivors(Duration.ofMillis(number));
            say("now " + group.rank() + "/" + group.size());
          }
          case "close" -> {
            group.close();
            say("closed");
          }
          default -> say("what is " + command + "?");
        }
      } catch (RuntimeException e) {
        say(e);
      } catch (InterruptedException e) {
        throw new IllegalStateException(e);
      }
    }
  }

  /** What all ranks pass to one all-gather: their number and the incarnations that they see. */
  private static String gather(Group group, int millis) {
    StringBuilder mine = new StringBuilder();
    for (int r = 0; r < group.size(); r++) {
      mine.append(group.isAlive(r) ? "" : "!").append(group.incarnation(r));
    }
    byte[][] all = group.allGather((group.rank() + ":" + mine).getBytes(UTF_8), ofMillis(millis));
    return Arrays.stream(all).map(part -> new String(part, UTF_8)).collect(joining(" "));
  }

  private static void host(int size, BufferedReader commands) throws IOException {
    try (Rendezvous rendezvous = Rendezvous.open(TcpWorld.config(size))) {
      say("port " + rendezvous.address().getPort());
      commands.readLine();
    }
  }

  /** Spins like an engine. */
  private static @Nullable String awaitDeath(Group group, int rank) {
    while (group.isAlive(rank)) {
      Thread.onSpinWait();
      Thread.yield();
    }
    return group.deathReport(rank);
  }

  private static void say(RuntimeException e) {
    say(e.getClass().getSimpleName() + ": " + e.getMessage());
  }

  private static void say(@Nullable String line) {
    System.out.println("> " + line);
  }
}
