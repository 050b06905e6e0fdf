package org.ep4j.rdma.ucx;

import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.time.Duration;
import org.ep4j.group.ThreadRanks;
import org.ep4j.rdma.ucx.bindings.UcxLibrary;
import org.ep4j.wire.Wire;
import org.ep4j.wire.WireConfig;
import org.ep4j.wire.WireWait;
import org.ep4j.wire.Wires;
import org.junit.jupiter.api.Test;

class ManyLanesTest {
  private static final Duration TIMEOUT =
      Duration.ofSeconds(Integer.getInteger("ep4j.patience", 30));
  private static final String TRANSPORTS = "ep4j.ucx.TLS";
  private static final int LANES = 600;

  /** The acknowledgements of all lanes do not fit into one message. */
  @Test
  void theLastWorkOfManyLanesIsAcknowledged() {
    assumeTrue(UcxLibrary.problem().isEmpty(), UcxLibrary.problem());
    WireConfig config =
        WireConfig.builder().wire("ucx").lanes(LANES).counters(1).timeout(TIMEOUT).build();
    // Its messages leave without the receiver.
    System.setProperty(TRANSPORTS, "tcp");
    try {
      exchange(config);
    } finally {
      System.clearProperty(TRANSPORTS);
    }
  }

  private static void exchange(WireConfig config) {
    ThreadRanks.run(
        2,
        group -> {
          try (Wire wire = Wires.open(group, config)) {
            WireWait wait = new WireWait(wire, 0, TIMEOUT);
            int peer = 1 - group.rank();
            // UCX connects with the first messages of both ranks.
            wait.add(wire.lane(peer, 0), 0, 1);
            wait.counter(0, 1, peer);
            group.barrier(TIMEOUT);
            if (group.rank() == 0) {
              for (int i = 0; i < LANES; i++) {
                wait.add(wire.lane(peer, i), 0, 1);
              }
              wait.flush(wire.lane(peer, LANES - 1));
            }
            // The receiver takes all at once.
            group.barrier(TIMEOUT);
            if (group.rank() == 0) {
              for (int i = 0; i < LANES; i++) {
                wait.delivery(wire.lane(peer, i));
              }
              wait.add(wire.lane(peer, 0), 0, 1);
              wait.flush(wire.lane(peer, 0));
            } else {
              wait.counter(0, LANES + 2, peer);
            }
            group.barrier(TIMEOUT);
          }
        });
  }
}
