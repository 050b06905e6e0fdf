package org.ep4j.cli.launch;

import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;

/** Two network namespaces with a link between them; each has its own network stack. */
final class LinkedNamespaces implements AutoCloseable {
  /** Name of the end of the link in either namespace. */
  static final String LINK = "ep4j0";

  private final List<String> made = new ArrayList<>();

  private LinkedNamespaces() {}

  /** Creates them; skips the test if this user or this machine cannot. */
  static LinkedNamespaces create() throws InterruptedException {
    LinkedNamespaces namespaces = new LinkedNamespaces();
    try {
      namespaces.link();
      return namespaces;
    } catch (RuntimeException e) { // also that of a skipped test
      namespaces.close();
      throw e;
    }
  }

  private void link() throws InterruptedException {
    long pid = ProcessHandle.current().pid();
    for (String name : List.of("ep4j-a" + pid, "ep4j-b" + pid)) {
      must("ip netns add " + name);
      made.add(name);
    }
    must(
        "ip -n "
            + first()
            + " link add "
            + LINK
            + " type veth peer name "
            + LINK
            + " netns "
            + second());
    int host = 1;
    for (String name : made) {
      must("ip -n " + name + " addr add 10.213.0." + host + "/24 dev " + LINK);
      must("ip -n " + name + " link set lo up");
      must("ip -n " + name + " link set " + LINK + " up");
      host++;
    }
  }

  String first() {
    return made.get(0);
  }

  String second() {
    return made.get(1);
  }

  List<String> names() {
    return List.copyOf(made);
  }

  /** Runs a command that this machine may not have; skips the test if it fails. */
  static void must(String command) throws InterruptedException {
    String problem = run(command);
    assumeTrue(problem.isEmpty(), "this machine cannot: " + problem);
  }

  /** Output of a failed command; empty if it succeeds. */
  private static String run(String command) throws InterruptedException {
    try {
      Process process =
          new ProcessBuilder(("timeout 20 " + command).split(" ", -1))
              .redirectErrorStream(true)
              .start();
      String said = new String(process.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
      return process.waitFor() == 0 ? "" : command + ": " + said.strip();
    } catch (IOException e) {
      return String.valueOf(e.getMessage());
    }
  }

  @Override
  public void close() {
    try {
      for (String name : made) {
        run("ip netns del " + name);
      }
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
    }
    made.clear();
  }
}
