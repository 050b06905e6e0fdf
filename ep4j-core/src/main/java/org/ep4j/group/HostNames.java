package org.ep4j.group;

/** Properties of host names. */
final class HostNames {
  private HostNames() {}

  /** Whether a name or address can only mean the local host. */
  static boolean isLoopback(String host) {
    return host.equals("localhost")
        || host.equals("::1")
        || host.equals("[::1]")
        || host.matches("127\\.\\d{1,3}\\.\\d{1,3}\\.\\d{1,3}");
  }
}
