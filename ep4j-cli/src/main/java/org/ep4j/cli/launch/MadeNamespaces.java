package org.ep4j.cli.launch;

import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.List;
import org.ep4j.cli.CommandFailure;
import org.ep4j.cli.ExitCodes;
import org.ep4j.error.ErrorCode;

/**
 * Network namespaces that simulate hosts on one network, created for one launch and removed after
 * it, also on SIGTERM. A bridge connects them. It has its own namespace, so that the network of the
 * machine does not change, and removing this namespace removes the bridge. Any thread may call
 * {@link #close}.
 */
final class MadeNamespaces implements AutoCloseable {
  /** Number of host addresses in a network of 8 bits. */
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
   * Creates {@code count} namespaces.
   *
   * @throws CommandFailure if this process lacks the permission, or the kernel lacks the support
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

  /** Names of the namespaces, one per host. */
  List<String> names() {
    return List.copyOf(hosts);
  }

  /** Creates a namespace; adds it first to those that {@link #close} removes. */
  private synchronized String add(String name) throws InterruptedException {
    ip("netns", "add", name);
    made.push(name);
    return name;
  }

  private synchronized void ip(String... arguments) throws InterruptedException {
    if (closed) {
      throw new CommandFailure(
          ErrorCode.LAUNCH_INTERRUPTED, ExitCodes.PEER, "interrupted while it created namespaces");
    }
    IpTool.Answer answer = IpTool.run(arguments);
    if (!answer.ok()) {
      throw new CommandFailure(
          ErrorCode.NAMESPACES_REFUSED,
          ExitCodes.UNAVAILABLE,
          "--hosts with a number creates network namespaces, which needs root (CAP_SYS_ADMIN,"
              + " CAP_NET_ADMIN) and a kernel with veth pairs and bridges; 'ip "
              + String.join(" ", arguments)
              + "' printed: "
              + answer.text().strip()
              + ": run it as root, or name existing namespaces");
    }
  }

  /** Removes the namespaces; a process in one keeps it until the process ends. */
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
        // The JVM is shutting down: its shutdown hook does the same.
      }
    }
  }

  private static void remove(String name) {
    try {
      IpTool.Answer answer = IpTool.run("netns", "del", name);
      if (!answer.ok()) {
        System.err.println(
            "ep4j: "
                + ErrorCode.NAMESPACE_NOT_REMOVED.message(
                    "network namespace " + name + " is not removed: " + answer.text().strip()));
      }
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
      System.err.println(
          "ep4j: "
              + ErrorCode.NAMESPACE_NOT_REMOVED.message(
                  "interrupted: remove the namespace with 'ip netns del " + name + "'"));
    }
  }
}
