package org.ep4j.wire.tcp;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.SocketChannel;
import java.time.Duration;
import java.util.Objects;
import java.util.concurrent.atomic.AtomicBoolean;
import org.ep4j.group.Group;
import org.ep4j.group.ThreadRanks;
import org.ep4j.wire.Lane;
import org.ep4j.wire.LaneFailedException;
import org.ep4j.wire.LaneFailure.Cause;
import org.ep4j.wire.Region;
import org.ep4j.wire.WireConfig;
import org.ep4j.wire.WireWait;
import org.ep4j.wire.support.LaneNotices;
import org.ep4j.wire.tcp.pipe.Pipe;
import org.ep4j.wire.tcp.pipe.PlainPipe;
import org.ep4j.wire.tcp.pipe.SocketPair;
import org.junit.jupiter.api.Test;

/**
 * A connection whose path is cut: nothing passes, and only the system of the rank that sends gives
 * up. The ranks are still connected by their group.
 */
class CutConnectionTest {
  private static final int BYTES = 1000;

  /** A wait of this length would be a timeout. */
  private static final Duration LONG = Duration.ofMinutes(10);

  private static final Duration LIMIT = Duration.ofMinutes(1);

  /**
   * One end of the path.
   *
   * @param inner the end while it works
   * @param cut shared by both ends
   * @param notices whether the system of this rank notices the cut
   */
  private record End(PlainPipe inner, AtomicBoolean cut, boolean notices) implements Pipe {
    @Override
    public int read(ByteBuffer target) throws IOException {
      return cut.get() ? 0 : inner.read(target);
    }

    @Override
    public int write(ByteBuffer source) throws IOException {
      if (!cut.get()) {
        return inner.write(source);
      }
      if (notices) {
        throw new IOException("Connection timed out");
      }
      int lost = source.remaining();
      source.position(source.limit());
      return lost;
    }

    @Override
    public boolean holdsInput() {
      return false;
    }

    @Override
    public boolean holdsOutput() {
      return false;
    }

    @Override
    public void end() {}

    @Override
    public SocketChannel channel() {
      return inner.channel();
    }

    /** The other end hears nothing. */
    @Override
    public void drop() {}

    @Override
    public byte[] binding() {
      return inner.binding();
    }
  }

  @Test
  void theRankThatOnlyWaitsHearsOverTheGroupWhyItsLanesHaveFailed() throws Exception {
    AtomicBoolean cut = new AtomicBoolean();
    try (SocketPair sockets = SocketPair.open()) {
      ThreadRanks.run(
          2,
          LIMIT,
          group -> {
            SocketChannel own = group.rank() == 0 ? sockets.here() : sockets.there();
            Pipe[] path = {new End(new PlainPipe(own), cut, group.rank() == 0)};
            Pipe[][] pipes = group.rank() == 0 ? new Pipe[][] {{}, path} : new Pipe[][] {path, {}};
            WireConfig config = WireConfig.builder().lanes(2).counters(2).build();
            TcpWire wire = new TcpWire("tcp", group, config, pipes, null);
            wire.exchange(new LaneNotices(group, 1));
            try (wire) {
              exchangeOverACutPath(group, wire, cut);
            }
          });
    }
  }

  private static void exchangeOverACutPath(Group group, TcpWire wire, AtomicBoolean cut) {
    Region region = wire.allocate(BYTES, LIMIT);
    int peer = 1 - group.rank();
    WireWait wait = new WireWait(wire, 0, LONG);
    Lane lane = wire.lane(peer, 1);
    assertThat(wait.put(lane, region, 0, region, 0, BYTES, 0)).isPositive();
    wait.counter(0, 1, peer);
    wait.flush(lane);
    group.barrier(LIMIT);
    cut.set(true);
    if (group.rank() == 0) {
      assertThat(lane.put(region, 0, region, 0, BYTES, 0)).isPositive();
    }
    assertThatThrownBy(() -> wait.counter(0, 2, peer))
        .isInstanceOf(LaneFailedException.class)
        .hasMessageContaining("Connection timed out")
        .hasMessageContaining(group.rank() == 0 ? "is lost" : "rank 0 has lost it");
    for (int i = 0; i < 2; i++) {
      assertThat(Objects.requireNonNull(wire.lane(peer, i).failure()).cause())
          .isEqualTo(Cause.LOST);
    }
    assertThat(wire.failedLanes()).isEqualTo(2);
    group.barrier(LIMIT);
  }
}
