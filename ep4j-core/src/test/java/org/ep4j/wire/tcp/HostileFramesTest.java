package org.ep4j.wire.tcp;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.io.IOException;
import java.lang.foreign.Arena;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.time.Duration;
import java.util.List;
import java.util.Objects;
import org.ep4j.group.Group;
import org.ep4j.wire.Lane;
import org.ep4j.wire.LaneFailedException;
import org.ep4j.wire.LaneFailure;
import org.ep4j.wire.LaneFailure.Cause;
import org.ep4j.wire.Region;
import org.ep4j.wire.WireConfig;
import org.ep4j.wire.WireMemory;
import org.ep4j.wire.WireWait;
import org.ep4j.wire.tcp.pipe.Pipe;
import org.ep4j.wire.tcp.pipe.PlainPipe;
import org.ep4j.wire.tcp.pipe.SocketPair;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

/** Rank 0 of 3, whose peers are sockets of the test. */
class HostileFramesTest {
  private static final Duration TIMEOUT = Duration.ofSeconds(5);
  private static final int REGION_BYTES = 1000;

  private final List<Group> groups = Group.inProcess(3);
  private SocketPair toBad;
  private SocketPair toGood;
  private TcpWire wire;
  private Region region;

  @BeforeEach
  void open() throws Exception {
    toBad = SocketPair.open();
    toGood = SocketPair.open();
    Pipe[][] pipes = {{}, {new PlainPipe(toBad.here())}, {new PlainPipe(toGood.here())}};
    WireConfig config = WireConfig.builder().lanes(2).counters(4).build();
    wire = new TcpWire("tcp", groups.getFirst(), config, pipes, null);
    Thread[] others = {expose(1), expose(2)};
    region = wire.allocate(REGION_BYTES, TIMEOUT);
    for (Thread other : others) {
      other.join(5_000);
    }
  }

  /** Acts as a peer while a region is made. */
  private Thread expose(int rank) {
    return Thread.ofPlatform()
        .daemon()
        .start(
            () ->
                groups
                    .get(rank)
                    .allGather(
                        ByteBuffer.allocate(9).put((byte) 0).putLong(REGION_BYTES).array(),
                        TIMEOUT));
  }

  @AfterEach
  void close() throws Exception {
    toBad.there().close();
    toGood.there().close();
    wire.close();
    groups.forEach(Group::close);
  }

  private static ByteBuffer frame(
      int type, int flags, int lane, int bytes, int region, int counter, long value) {
    ByteBuffer frame =
        ByteBuffer.allocate(FrameLayout.HEADER + Math.clamp(bytes, 0, 2000))
            .order(ByteOrder.LITTLE_ENDIAN);
    FrameLayout.append(frame, (byte) type, (byte) flags, lane, bytes, region, counter, value);
    return frame.rewind();
  }

  private static ByteBuffer put(int lane, int bytes, int region, int counter, long offset) {
    return frame(FrameLayout.PUT, FrameLayout.LAST, lane, bytes, region, counter, offset);
  }

  private void refused(ByteBuffer frame, String why) throws IOException {
    toBad.there().write(frame);
    failed(Cause.PROTOCOL, why);
  }

  /** Both lanes to the bad peer fail with this cause; the good peer is served as before. */
  private void failed(Cause cause, String why) throws IOException {
    WireWait wait = new WireWait(wire, 0, TIMEOUT);
    for (int i = 0; i < 2; i++) {
      Lane lane = wire.lane(1, i);
      wait.until(() -> lane.failure() != null, "the lane to fail");
      LaneFailure failure = Objects.requireNonNull(lane.failure());
      assertThat(failure.cause()).isEqualTo(cause);
      assertThat(failure.toString()).contains(why).contains("rank 1");
    }
    assertThat(wire.failedLanes()).isEqualTo(2);
    assertThat(wire.counters().get(0)).isZero();
    toGood.there().write(put(1, 10, 0, 3, 0));
    wait.counter(3, 1, 2);
    assertThat(wire.lane(2, 0).failure()).isNull();
  }

  @Test
  void aRightFrameIsTaken() throws Exception {
    toBad.there().write(put(0, REGION_BYTES, 0, 0, 0));
    toBad.there().write(frame(FrameLayout.ADD, FrameLayout.LAST, 1, 0, -1, 1, -5));
    WireWait wait = new WireWait(wire, 0, TIMEOUT);
    wait.counter(0, 1, 1);
    wait.until(() -> wire.counters().get(1) == -5, "the add");
  }

  @Test
  void aFrameThatIsTooLongIsRefused() throws Exception {
    refused(put(0, FrameLayout.MAX_PAYLOAD + 1, 0, 0, 0), "a frame of 1048577 bytes");
  }

  @Test
  void aFrameOfNegativeLengthIsRefused() throws Exception {
    refused(put(0, -1, 0, 0, 0), "a frame of -1 bytes");
  }

  @Test
  void aPutBehindTheRegionIsRefused() throws Exception {
    refused(put(0, 10, 0, 0, REGION_BYTES - 9), "a put of 10 bytes at 991 of a region of 1000");
  }

  @Test
  void aPutBeforeTheRegionIsRefused() throws Exception {
    refused(put(0, 10, 0, 0, -1), "at -1");
  }

  @Test
  void aPutBeyondTheRegionIsRefused() throws Exception {
    refused(put(0, 10, 0, 0, Long.MAX_VALUE), "a region of 1000");
  }

  @Test
  void aPutIntoNoRegionIsRefused() throws Exception {
    refused(put(0, 10, 1, 0, 0), "region 1, which is closed or was never open");
  }

  @Test
  void aPutIntoARegionOfNegativeNumberIsRefused() throws Exception {
    refused(put(0, 10, -1, 0, 0), "region -1");
  }

  @Test
  void aPutIntoAClosedRegionIsRefused() throws Exception {
    region.close();
    toBad.there().write(put(0, 10, 0, 0, 0));
    WireWait wait = new WireWait(wire, 0, TIMEOUT);
    wait.until(() -> wire.lane(1, 0).failure() != null, "the lane to fail");
    assertThat(String.valueOf(wire.lane(1, 0).failure())).contains("region 0, which is closed");
  }

  @Test
  void memoryThatItsOwnerGaveBackIsNotTouched() throws Exception {
    try (Arena arena = Arena.ofShared()) {
      Thread[] others = {expose(1), expose(2)};
      Region exposed = wire.expose(WireMemory.host(arena.allocate(REGION_BYTES)), TIMEOUT);
      for (Thread other : others) {
        other.join(5_000);
      }
      assertThat(exposed.bytes(1)).isEqualTo(REGION_BYTES);
    }
    refused(put(0, 10, 1, 0, 0), "memory that was freed");
  }

  @Test
  void aCounterThatIsNotThereIsRefused() throws Exception {
    refused(put(0, 10, 0, 4, 0), "counts 4");
  }

  @Test
  void anAddToNoCounterIsRefused() throws Exception {
    refused(frame(FrameLayout.ADD, FrameLayout.LAST, 0, 0, -1, -1, 1), "counts -1");
  }

  @Test
  void aLaneThatIsNotThereIsRefused() throws Exception {
    refused(put(2, 10, 0, 0, 0), "a frame of lane 2");
  }

  @Test
  void aFrameOfNoTypeIsRefused() throws Exception {
    refused(frame(9, 0, 0, 0, 0, 0, 0), "a frame of type 9");
  }

  @Test
  void anAcknowledgementOfWorkThatWasNotSentIsRefused() throws Exception {
    refused(frame(FrameLayout.ACK, 0, 0, 0, 0, 0, 1), "acknowledgement of work");
  }

  @Test
  void aConnectionThatEndsInTheMiddleOfAFrameIsLost() throws Exception {
    ByteBuffer frame = put(0, 100, 0, 0, 0);
    toBad.there().write(frame.limit(60));
    toBad.there().close();
    failed(Cause.LOST, "the group still counts rank 1 as alive");
  }

  @Test
  void aPeerThatSendsGoodbyeHasClosed() throws Exception {
    toBad.there().write(frame(FrameLayout.GOODBYE, 0, 0, 0, 0, 0, 0));
    failed(Cause.CLOSED, "the peer has closed its wire");
  }

  /** A host that loses power sends no end of its connections: the group notices. */
  @Test
  void aPeerThatTheGroupCountsAsLostFails() throws Exception {
    groups.get(1).fail("no power");
    failed(Cause.DEPARTED, "no power");
  }

  @Test
  void workThatThePeerNeverConfirmedIsReportedAsLost() throws Exception {
    Lane lane = wire.lane(1, 0);
    assertThat(lane.put(region, 0, region, 0, 10, 0)).isEqualTo(1);
    assertThat(lane.put(region, 0, region, 0, 10, 0)).isEqualTo(2);
    assertThat(lane.flush()).isTrue();
    toBad.there().write(frame(FrameLayout.ACK, 0, 0, 0, 0, 0, 1));
    WireWait wait = new WireWait(wire, 0, TIMEOUT);
    wait.until(() -> lane.delivered() == 1, "the acknowledgement");
    toBad.there().close();
    wait.until(() -> lane.failure() != null, "the lane to fail");
    LaneFailure failure = Objects.requireNonNull(lane.failure());
    assertThat(failure.delivered()).isEqualTo(1);
    assertThat(failure.accepted()).isEqualTo(2);
    assertThat(failure.toString()).contains("of 2 pieces of work the last 1 may be lost");
  }

  @Test
  void aFlushThrowsWhereWorkMayBeLost() throws Exception {
    Lane lane = wire.lane(1, 0);
    WireWait wait = new WireWait(wire, 0, TIMEOUT);
    wait.put(lane, region, 0, region, 0, 10, 0);
    toBad.there().close();
    wait.until(() -> lane.failure() != null, "the lane to fail");
    assertThatThrownBy(() -> wait.flush(lane))
        .isInstanceOf(LaneFailedException.class)
        .hasMessageContaining("the bytes of accepted work to leave");
  }
}
