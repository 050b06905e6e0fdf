package org.ep4j.group.rendezvous;

/** Properties of host names. */
public final class HostNames {
  private HostNames() {}

  /** Whether a name or address can only mean the local host. */
  public static boolean isLoopback(String host) {
    return host.equals("localhost")
        || host.equals("::1")
        || host.equals("[::1]")
        || host.matches("127\\.\\d{1,3}\\.\\d{1,3}\\.\\d{1,3}");
  }
}
