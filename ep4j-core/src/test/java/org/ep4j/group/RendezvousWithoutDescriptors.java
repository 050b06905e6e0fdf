package org.ep4j.group;

import java.lang.System.Logger.Level;
import java.net.InetSocketAddress;
import java.nio.channels.SocketChannel;
import java.time.Duration;
import org.ep4j.group.rendezvous.Rendezvous;

/**
 * Program with a low limit of open files: a connection arrives at a rendezvous while no descriptor
 * is free, then two ranks join. Prints {@code joined} once the ranks have met, in a round with
 * enough descriptors and in one without.
 */
final class RendezvousWithoutDescriptors {
  /** Several ticks of the thread that accepts. */
  private static final Duration MOMENT = Duration.ofMillis(300);

  private RendezvousWithoutDescriptors() {}

  public static void main(String[] arguments) throws Exception {
    // Neither classes nor the settings of the log can be read without descriptors.
    System.getLogger("org.ep4j.group").log(Level.INFO, "the log is open");
    round(false);
    round(true);
    System.exit(0);
  }

  private static void round(boolean scarce) throws Exception {
    GroupConfig config = TcpWorld.config(2);
    try (Rendezvous rendezvous = Rendezvous.open(config);
        SocketChannel early = SocketChannel.open()) {
      InetSocketAddress address = rendezvous.address();
      if (scarce) {
        try (TakenDescriptors _ = new TakenDescriptors()) {
          // The kernel completes the connection; the rendezvous needs a descriptor to accept it.
          early.connect(address);
          Thread.sleep(MOMENT);
        }
      } else {
        // The thread that accepts loads the classes of its ticks.
        Thread.sleep(MOMENT);
      }
      Thread second = Thread.ofPlatform().start(() -> join(rendezvous, 1));
      join(rendezvous, 0);
      second.join();
    }
    System.out.println("joined");
  }

  private static void join(Rendezvous rendezvous, int rank) {
    try (Group group = Group.join(rendezvous.configOf(rank))) {
      group.barrier(TcpWorld.LONG);
    }
  }
}
