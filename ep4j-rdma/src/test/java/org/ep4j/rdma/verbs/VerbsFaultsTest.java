package org.ep4j.rdma.verbs;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.assertj.core.api.Assertions.catchThrowable;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Arrays;
import java.util.List;
import java.util.Objects;
import java.util.concurrent.Callable;
import java.util.concurrent.CompletableFuture;
import jdk.jfr.consumer.RecordedEvent;
import org.ep4j.ExpertBuffer;
import org.ep4j.config.BufferConfig;
import org.ep4j.config.EngineName;
import org.ep4j.conformance.world.FlightRecording;
import org.ep4j.error.PeerTimeoutException;
import org.ep4j.group.ThreadRanks;
import org.ep4j.rdma.softverbs.SoftVerbs;
import org.ep4j.rdma.verbs.ports.RdmaPort;
import org.ep4j.rdma.verbs.ports.RdmaPorts;
import org.ep4j.routing.Routing;
import org.ep4j.tensor.Tensor;
import org.ep4j.wire.Lane;
import org.ep4j.wire.LaneFailedException;
import org.ep4j.wire.LaneFailure;
import org.ep4j.wire.LaneFailure.Cause;
import org.ep4j.wire.Region;
import org.ep4j.wire.WireConfig;
import org.ep4j.wire.WireException;
import org.ep4j.wire.WireMemory;
import org.ep4j.wire.WireWait;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.condition.EnabledIf;

/** Failures of cables, queue pairs and keys: the affected lanes fail, and no put is torn. */
@EnabledIf(value = "org.ep4j.rdma.verbs.Fabric#hasCables", disabledReason = Fabric.REASON)
class VerbsFaultsTest {
  private static final long BYTES = 10_000;
  private static final int TOKENS = 64;

  /** A wait of this length would be a timeout. */
  private static final Duration LONG = Duration.ofMinutes(3);

  @Test
  void aDisconnectedCableFailsTheLanesOfBothSides() throws Exception {
    try (PairOfWires wires = new PairOfWires(1, 1, WireConfig.builder())) {
      List<Region> source = wires.allocate(BYTES);
      List<Region> target = wires.allocate(BYTES);
      Lane lane = wires.a.lane(1, 0);
      lane.put(source.get(0), 0, target.get(0), 0, BYTES, 0);
      wires.until(() -> lane.delivered() == 1, "the first put");
      PairOfWires.link("down", "b0");
      try {
        lane.put(source.get(0), 0, target.get(0), 0, BYTES, 0);
        wires.until(() -> lane.failure() != null, "the sender's lane to fail");
        // This side only waits; its probe detects the failure.
        Lane back = wires.b.lane(0, 0);
        wires.until(() -> back.failure() != null, "the receiver's lane to fail");
        assertThat(failure(lane).cause()).isEqualTo(Cause.LOST);
        assertThat(failure(lane).delivered()).isEqualTo(1);
        assertThat(failure(lane).lost()).isEqualTo(1);
        assertThat(failure(lane).text()).contains(Fabric.device("a0") + ":1").contains("retry");
        assertThat(wires.a.failedLanes()).isEqualTo(wires.a.config().lanes());
        assertThat(wires.b.counters().get(0)).isEqualTo(1);
      } finally {
        PairOfWires.link("up", "b0");
      }
    }
  }

  @Test
  void aPutIntoAClosedRegionFailsItsLaneAndTouchesNothing() throws Exception {
    try (Arena arena = Arena.ofShared();
        PairOfWires wires = new PairOfWires(1, 2, WireConfig.builder().lanes(2))) {
      MemorySegment memory = arena.allocate(BYTES, 64);
      WireMemory own = WireMemory.host(arena.allocate(BYTES, 64));
      List<Region> target = wires.expose(own, WireMemory.host(memory));
      List<Region> source = wires.allocate(BYTES);
      source.get(0).segment().fill((byte) 7);
      target.get(1).close();
      Lane late = wires.a.lane(1, 0);
      late.put(source.get(0), 0, target.get(0), 0, BYTES, 0);
      wires.until(() -> late.failure() != null, "the late put to fail");
      assertThat(failure(late).cause()).isEqualTo(Cause.PROTOCOL);
      assertThat(failure(late).text()).contains("remote access error");
      assertThat(
              memory
                  .asByteBuffer()
                  .mismatch(MemorySegment.ofArray(new byte[(int) BYTES]).asByteBuffer()))
          .isEqualTo(-1);
      assertThat(wires.b.counters().get(0)).isZero();
      // The other queue pair continues.
      List<Region> next = wires.allocate(BYTES);
      Lane other = wires.a.lane(1, 1);
      other.put(source.get(0), 0, next.get(0), 0, BYTES, 1);
      wires.until(() -> wires.b.counters().get(1) == 1, "the other lane");
      assertThat(next.get(1).segment().get(ValueLayout.JAVA_BYTE, BYTES - 1)).isEqualTo((byte) 7);
    }
  }

  @Test
  void lanesOfADisconnectedCableContinueOverTheOtherPort() throws Exception {
    int lanes = 4;
    try (PairOfWires wires = new PairOfWires(2, 1, WireConfig.builder().lanes(lanes));
        FlightRecording recording = new FlightRecording()) {
      continueOverAnother(
          wires,
          () -> {
            PairOfWires.link("down", "b1");
            return null;
          });
      recording.stop();
      List<RecordedEvent> losses = recording.events("PathLoss");
      assertThat(losses)
          .extracting(event -> event.getInt("rank") + " to " + event.getInt("peer"))
          .containsExactlyInAnyOrder("0 to 1", "1 to 0");
      assertThat(losses)
          .allMatch(event -> event.getInt("lanes") == lanes / 2)
          .allMatch(event -> !event.getString("port").equals(event.getString("continuesOver")))
          .allMatch(event -> !event.getString("reason").isEmpty());
    } finally {
      PairOfWires.link("up", "b1");
    }
  }

  @Test
  void lanesOfAQueuePairInErrorContinueOverAnother() throws Exception {
    try (PairOfWires wires = new PairOfWires(1, 4, WireConfig.builder().lanes(8))) {
      continueOverAnother(
          wires,
          () -> {
            wires.b.progressContext(0).pairs()[1].stop();
            wires.a.progressContext(0).pairs()[2].stop();
            return null;
          });
    }
  }

  @Test
  void withoutAnotherTheLanesOfAQueuePairInErrorFail() throws Exception {
    try (PairOfWires wires = new PairOfWires(1, 1, WireConfig.builder())) {
      wires.a.progressContext(0).pairs()[0].stop();
      wires.until(() -> wires.a.lane(1, 0).failure() != null, "the lane to fail");
      assertThat(failure(wires.a.lane(1, 0)).cause()).isEqualTo(Cause.LOST);
      // Its own probe would notice it much later, and could name no other cause than silence.
      Lane back = wires.b.lane(0, 0);
      wires.until(() -> back.failure() != null, "the lane of the peer to fail");
      assertThat(failure(back).cause()).isEqualTo(Cause.LOST);
      assertThat(failure(back).text())
          .contains("rank 0 has lost it", Fabric.device("a0") + ":1", "Flushed");
    }
  }

  /** As of a device in a fatal error. */
  @Test
  @EnabledIf("org.ep4j.rdma.verbs.VerbsConnectionSetupTest#onEmulatedDevices")
  void lanesOfAQueuePairThatCannotBeStoppedFailOnBothSides() throws Exception {
    int error = 6;
    try (PairOfWires wires = new PairOfWires(1, 2, WireConfig.builder().lanes(2))) {
      SoftVerbs.refuse("a0", error);
      PairOfWires.link("pair", "1", "a0");
      wires.until(() -> wires.a.failedLanes() == 1, "a lane to fail");
      wires.until(() -> wires.b.failedLanes() == 1, "the lane of the peer to fail");
      int lost = wires.a.lane(1, 0).failure() == null ? 1 : 0;
      assertThat(failure(wires.a.lane(1, lost)).cause()).isEqualTo(Cause.LOST);
      assertThat(failure(wires.b.lane(0, lost)).cause()).isEqualTo(Cause.LOST);
      // The other queue pair continues.
      List<Region> region = wires.allocate(BYTES);
      wires.a.lane(1, 1 - lost).put(region.get(0), 0, region.get(0), 0, BYTES, 0);
      wires.until(() -> wires.b.counters().get(0) == 1, "the other lane");
    } finally {
      SoftVerbs.refuse("a0", 0);
    }
  }

  @Test
  void aRankWithoutMemoryForARegionTellsTheOthers() throws Exception {
    try (PairOfWires wires = new PairOfWires(1, 1, WireConfig.builder())) {
      CompletableFuture<Throwable> without =
          CompletableFuture.supplyAsync(
              () -> catchThrowable(() -> wires.a.allocate(1L << 60, PairOfWires.TIMEOUT)));
      Throwable other = catchThrowable(() -> wires.b.allocate(BYTES, PairOfWires.TIMEOUT));
      assertThat(List.of(without.join(), other))
          .allSatisfy(
              error ->
                  assertThat(error)
                      .isInstanceOf(WireException.class)
                      .hasMessageContaining("rank 0: no memory for a region"));
    }
  }

  /** The caller drives its own side only, as a rank does; its own queue pair is in order. */
  @Test
  void aPeersQueuePairInErrorReachesTheWaitingCallerWithItsCause() throws Exception {
    try (PairOfWires wires = new PairOfWires(1, 1, WireConfig.builder())) {
      List<Region> source = wires.allocate(BYTES);
      List<Region> target = wires.allocate(BYTES);
      Lane lane = wires.a.lane(1, 0);
      for (int i = 0; i < 20; i++) {
        assertThat(lane.put(source.get(0), 0, target.get(0), 0, BYTES, 0)).isPositive();
        wires.a.poll(0);
        if (i == 10) {
          wires.b.progressContext(0).pairs()[0].stop();
        }
      }
      assertThatThrownBy(() -> new WireWait(wires.a, 0, LONG).delivery(lane))
          .isInstanceOf(LaneFailedException.class)
          .hasMessageContaining(Fabric.device("a0") + ":1")
          .hasMessageContaining("retry");
      assertThat(failure(lane).cause()).isEqualTo(Cause.LOST);
      assertThat(failure(lane).lost()).isPositive();
      Lane back = wires.b.lane(0, 0);
      wires.until(() -> back.failure() != null, "the lane of the stopped queue pair to fail");
      assertThat(failure(back).cause()).isEqualTo(Cause.LOST);
      assertThat(wires.b.counters().get(0)).isLessThan(20);
    }
  }

  /** A buffer has been in use when its path is lost: the timeout is much longer than the test. */
  @Test
  void callersOfAnEngineGetTheCauseOfALostPathInsteadOfATimeoutAndContinue() throws Exception {
    BufferConfig config =
        BufferConfig.builder()
            .engine(EngineName.HOST)
            .hidden(1024)
            .topK(1)
            .experts(2)
            .highThroughput(TOKENS)
            .ranksPerNode(1)
            .wire("verbs-1x1")
            .timeout(LONG)
            .build();
    try {
      ThreadRanks.run(
          2,
          group -> {
            try (ExpertBuffer buffer = ExpertBuffer.open(group, config)) {
              assertThat(dispatch(buffer)).isEqualTo(TOKENS);
              group.barrier(LONG);
              if (group.rank() == 0) {
                PairOfWires.link("down", "b0");
              }
              group.barrier(LONG);
              assertThatThrownBy(() -> dispatch(buffer))
                  .isInstanceOf(PeerTimeoutException.class)
                  .hasMessageContaining("rank " + (1 - group.rank()))
                  .hasMessageContaining("is unreachable")
                  .hasMessageContaining(Fabric.device(group.rank() == 0 ? "a0" : "b0") + ":1");
              group.barrier(LONG);
              if (group.rank() == 0) {
                PairOfWires.link("up", "b0");
              }
              group.barrier(LONG);
              buffer.reset();
              assertThat(dispatch(buffer)).isEqualTo(TOKENS);
            }
          });
    } finally {
      PairOfWires.link("up", "b0");
    }
  }

  private static int dispatch(ExpertBuffer buffer) {
    long[] experts = new long[TOKENS];
    Arrays.fill(experts, 1 - buffer.rank());
    float[] weights = new float[TOKENS];
    Arrays.fill(weights, 1);
    short[] rows = new short[TOKENS * 1024];
    return (int)
        buffer.dispatch(Tensor.ofBf16(rows, TOKENS, 1024), Routing.of(experts, weights, 1)).rows();
  }

  /**
   * Rounds of puts in both directions, counted by the put or by an add, each into its own place,
   * with a fault in the middle. All puts must arrive complete and be counted once.
   */
  private static void continueOverAnother(PairOfWires wires, Callable<Void> fault)
      throws Exception {
    int rounds = 120;
    long slot = 5_000;
    int lanes = wires.a.config().lanes();
    List<Region> source = wires.allocate(rounds * slot);
    List<Region> target = wires.allocate(rounds * slot);
    for (int side = 0; side < 2; side++) {
      for (long at = 0; at < rounds * slot; at++) {
        source
            .get(side)
            .segment()
            .set(ValueLayout.JAVA_BYTE, at, (byte) (at * 7 + at / slot + side));
      }
    }
    for (int round = 0; round < rounds; round++) {
      for (int side = 0; side < 2; side++) {
        VerbsWire wire = side == 0 ? wires.a : wires.b;
        Lane lane = wire.lane(1 - side, round % lanes);
        long at = round * slot;
        boolean counted = round % 3 != 0;
        int counter = counted ? round : Lane.NO_COUNTER;
        assertThat(lane.put(source.get(side), at, target.get(side), at, slot, counter))
            .isPositive();
        if (!counted) {
          assertThat(lane.add(round, 1)).isPositive();
        }
        wire.poll(0);
      }
      if (round == rounds / 2) {
        fault.call();
      }
    }
    wires.until(() -> delivered(wires.a, 1) && delivered(wires.b, 0), "all work");
    assertThat(wires.a.failedLanes()).isZero();
    assertThat(wires.b.failedLanes()).isZero();
    for (int side = 0; side < 2; side++) {
      VerbsWire receiver = side == 0 ? wires.b : wires.a;
      for (int round = 0; round < rounds; round++) {
        assertThat(receiver.counters().get(round)).as("round %d", round).isEqualTo(1);
      }
      MemorySegment got = target.get(1 - side).segment();
      assertThat(got.mismatch(source.get(side).segment())).isEqualTo(-1);
    }
  }

  private static boolean delivered(VerbsWire wire, int peer) {
    boolean all = true;
    for (int i = 0; i < wire.config().lanes(); i++) {
      all &=
          wire.lane(peer, i).flush()
              && wire.lane(peer, i).delivered() == wire.lane(peer, i).accepted();
    }
    return all;
  }

  @Test
  void aReceiverIsAlwaysReady() throws Exception {
    long before = notReady();
    try (PairOfWires wires = new PairOfWires(1, 1, WireConfig.builder())) {
      List<Region> region = wires.allocate(BYTES);
      Lane lane = wires.a.lane(1, 0);
      // Many more puts than receives, while the other side does not poll.
      for (int i = 0; i < 1000; i++) {
        assertThat(lane.put(region.get(0), 0, region.get(0), 0, 8, 0)).isPositive();
        wires.a.poll(0);
      }
      assertThat(lane.delivered()).isZero();
      wires.until(() -> lane.delivered() == 1000, "all puts");
      assertThat(wires.b.counters().get(0)).isEqualTo(1000);
    }
    assertThat(notReady()).isEqualTo(before);
  }

  /** Number of receiver-not-ready responses of the fabric. */
  private static long notReady() throws Exception {
    long sum = 0;
    for (RdmaPort port : RdmaPorts.discover()) {
      Path counters = RdmaPorts.DEVICES.resolve(port.device() + "/ports/1/hw_counters");
      sum += Long.parseLong(Files.readString(counters.resolve("rcvd_rnr_err")).strip());
      sum += Long.parseLong(Files.readString(counters.resolve("send_rnr_err")).strip());
    }
    return sum;
  }

  private static LaneFailure failure(Lane lane) {
    return Objects.requireNonNull(lane.failure());
  }
}
