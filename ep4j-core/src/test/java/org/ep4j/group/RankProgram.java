package org.ep4j.group;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import org.jspecify.annotations.Nullable;

/**
 * One rank as a process: joins as its environment says, then does what its standard input says, a
 * line of answer for each line. With the arguments {@code host} and a number of ranks it hosts a
 * rendezvous for them instead, as a launcher.
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
      group = Group.fromEnvironment();
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
      }
    }
  }

  private static void host(int size, BufferedReader commands) throws IOException {
    try (Rendezvous rendezvous = Rendezvous.open(TcpWorld.config(size))) {
      say("port " + rendezvous.address().getPort());
      commands.readLine();
    }
  }

  /** Spins as an engine does. */
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
