package org.ep4j.group;

/** What can be said of a host by its name alone. */
final class HostNames {
  private HostNames() {}

  /** Whether a name or address means the host it is used on, and nobody else can mean that. */
  static boolean isLoopback(String host) {
    return host.equals("localhost")
        || host.equals("::1")
        || host.equals("[::1]")
        || host.matches("127\\.\\d{1,3}\\.\\d{1,3}\\.\\d{1,3}");
  }
}
