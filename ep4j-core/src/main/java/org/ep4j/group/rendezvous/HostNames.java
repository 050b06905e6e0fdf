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

  /** The host as text that a port may follow: IPv6 addresses stand in brackets. */
  public static String bracketed(String host) {
    return host.contains(":") && !host.startsWith("[") ? "[" + host + "]" : host;
  }
}
