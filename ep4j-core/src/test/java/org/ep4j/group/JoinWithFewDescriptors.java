package org.ep4j.group;

import java.io.IOException;
import java.net.BindException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.time.Duration;

/**
 * Program with a low limit of open files: a rank that hosts its rendezvous joins with fewer and
 * fewer free descriptors. Prints each failure, and whether a rendezvous stayed behind.
 */
final class JoinWithFewDescriptors {
  /** A rendezvous and a rank need about as many. */
  private static final int ENOUGH = 10;

  private JoinWithFewDescriptors() {}

  public static void main(String[] arguments) throws Exception {
    TakenDescriptors.loadClasses();
    for (int free = ENOUGH; free >= 0; free--) {
      GroupConfig config =
          TcpWorld.config(1).toBuilder()
              .rendezvous("127.0.0.1", TcpWorld.freePort())
              .hostsRendezvous(true)
              .joinTimeout(Duration.ofMillis(200))
              .build();
      String result;
      try (TakenDescriptors taken = new TakenDescriptors()) {
        taken.release(free);
        result = join(config);
      }
      System.out.println(free + " free: " + result + (isTaken(config.port()) ? ", leaks" : ""));
    }
    System.exit(0);
  }

  private static String join(GroupConfig config) {
    try (Group group = Group.join(config)) {
      return "joined as " + group.rank();
    } catch (RuntimeException e) {
      return e.getClass().getSimpleName() + ": " + e.getMessage();
    }
  }

  private static boolean isTaken(int port) throws IOException {
    try (ServerSocket _ = new ServerSocket(port, 1, InetAddress.getByName("127.0.0.1"))) {
      return false;
    } catch (BindException e) {
      return true;
    }
  }
}
