package org.ep4j.cli.launch;

import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.List;
import org.ep4j.cli.CommandFailure;
import org.ep4j.cli.ExitCodes;

/**
 * Network namespaces that stand for hosts, all of them on one network, made for one launch and
 * removed after it, also when this process is asked to end. A bridge joins them; it lies in a
 * namespace of its own, so that the network of the machine stays as it is, and with its namespace
 * everything of it goes. {@link #close} may be called by another thread than made them.
 */
final class MadeNamespaces implements AutoCloseable {
  /** Addresses of a network of 8 bits, but for the first and the last. */
  static final int MAX = 254;

  private static final String BRIDGE = "br0";
  private static final String LINK = "eth0";
  private static final String NETWORK = "10.213.0.";
  private static final String BITS = "/24";

  private final List<String> hosts = new ArrayList<>();
  private final Deque<String> made = new ArrayDeque<>();
  private final Thread atExit = new Thread(this::close, "ep4j-remove-namespaces");
  private boolean closed;

  private MadeNamespaces() {
    Runtime.getRuntime().addShutdownHook(atExit);
  }

  /**
   * Makes so many of them.
   *
   * @throws CommandFailure if this process may not, or the machine cannot
   */
  static MadeNamespaces make(int count) throws InterruptedException {
    MadeNamespaces all = new MadeNamespaces();
    boolean complete = false;
    try {
      String prefix = "ep4j-" + ProcessHandle.current().pid() + "-";
      String network = all.add(prefix + "switch");
      all.ip("-n", network, "link", "add", BRIDGE, "type", "bridge");
      all.ip("-n", network, "link", "set", BRIDGE, "up");
      for (int i = 1; i <= count; i++) {
        String port = "port" + i;
        String host = all.add(prefix + i);
        all.ip(
            "-n", network, "link", "add", port, "type", "veth", "peer", "name", LINK, "netns",
            host);
        all.ip("-n", network, "link", "set", port, "master", BRIDGE, "up");
        all.ip("-n", host, "addr", "add", NETWORK + i + BITS, "dev", LINK);
        all.ip("-n", host, "link", "set", "lo", "up");
        all.ip("-n", host, "link", "set", LINK, "up");
        all.hosts.add(host);
      }
      complete = true;
      return all;
    } finally {
      if (!complete) {
        all.close();
      }
    }
  }

  /** Their names, one for each host. */
  List<String> names() {
    return List.copyOf(hosts);
  }

  /** A namespace is on the list of those to remove before anybody can ask to end. */
  private synchronized String add(String name) throws InterruptedException {
    ip("netns", "add", name);
    made.push(name);
    return name;
  }

  private synchronized void ip(String... arguments) throws InterruptedException {
    if (closed) {
      throw new CommandFailure(ExitCodes.PEER, "the launch was ended while it made namespaces");
    }
    IpTool.Answer answer = IpTool.run(arguments);
    if (!answer.ok()) {
      throw new CommandFailure(
          ExitCodes.UNAVAILABLE,
          "--hosts with a number makes network namespaces, which needs root (CAP_SYS_ADMIN,"
              + " CAP_NET_ADMIN) and a kernel with veth pairs and bridges: 'ip "
              + String.join(" ", arguments)
              + "' says: "
              + answer.text().strip()
              + "; run it as root, or name namespaces that somebody has made");
    }
  }

  /** Removes them; what still runs in one keeps it until it ends. */
  @Override
  public synchronized void close() {
    closed = true;
    while (!made.isEmpty()) {
      remove(made.pop());
    }
    if (Thread.currentThread() != atExit) {
      try {
        Runtime.getRuntime().removeShutdownHook(atExit);
      } catch (IllegalStateException e) {
        // The JVM is already ending: the hook does the same.
      }
    }
  }

  private static void remove(String name) {
    try {
      IpTool.Answer answer = IpTool.run("netns", "del", name);
      if (!answer.ok()) {
        System.err.println(
            "ep4j: the network namespace " + name + " stays: " + answer.text().strip());
      }
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
      System.err.println("ep4j: interrupted; remove it by 'ip netns del " + name + "'");
    }
  }
}
