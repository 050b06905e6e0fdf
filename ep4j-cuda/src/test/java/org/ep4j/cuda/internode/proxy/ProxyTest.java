package org.ep4j.cuda.internode.proxy;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.time.Duration;
import java.util.List;
import java.util.Objects;
import java.util.function.Consumer;
import java.util.function.LongSupplier;
import org.ep4j.error.Ep4jException;
import org.ep4j.error.ErrorCode;
import org.ep4j.error.InvalidArgumentException;
import org.ep4j.group.Group;
import org.ep4j.group.ThreadRanks;
import org.ep4j.memory.NativeMemory;
import org.ep4j.wire.LaneFailure;
import org.ep4j.wire.LaneFailure.Cause;
import org.ep4j.wire.Region;
import org.ep4j.wire.Wire;
import org.ep4j.wire.WireConfig;
import org.ep4j.wire.WireWait;
import org.ep4j.wire.Wires;
import org.ep4j.wire.support.GroupWire;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Threads push instead of a GPU; real wires carry the posted commands. */
class ProxyTest {
  private static final Duration TIMEOUT = Duration.ofSeconds(20);
  private static final int THREADS = 2;
  private static final int LANES = 4;
  private static final int PUTS = 5000;
  private static final long BYTES = 16L * PUTS;

  /** From a progress context to a peer. */
  private static final int IN_FLIGHT = 16;

  private static final int FILL_WARPS_TOTAL = 3 * IN_FLIGHT;

  private static ProxyConfig config() {
    return new ProxyConfig(THREADS, 2 * THREADS, 64, 8, List.of(), TIMEOUT);
  }

  private static ProxyConfig hurried() {
    return new ProxyConfig(THREADS, 2 * THREADS, 64, 8, List.of(), Duration.ofMillis(300));
  }

  private static Wire wire(Group group, String name) {
    return Wires.open(
        group,
        WireConfig.builder()
            .wire(name)
            .lanes(LANES)
            .progressContexts(THREADS)
            .counters(8)
            .operationsInFlight(IN_FLIGHT)
            .timeout(TIMEOUT)
            .build());
  }

  /** A proxy of rank 0 with substitutes for its kernels. */
  private static final class Sender implements AutoCloseable {
    final Arena arena = Arena.ofShared();
    final RingMemory memory;
    final Proxy proxy;
    final HostProducer[] producers;

    Sender(Wire wire, Region region, ProxyConfig config) {
      long bytes = Proxy.memory(0, wire, config).bytes();
      MemorySegment words = arena.allocate(bytes, RingMemory.TAIL_BYTES);
      memory = Proxy.memory(words.address(), wire, config);
      proxy = Proxy.over(words, wire, region, region, config);
      producers = new HostProducer[config.rings()];
      for (int ring = 0; ring < producers.length; ring++) {
        producers[ring] = new HostProducer(memory, ring);
      }
    }

    void push(int ring, long first, long second) {
      assertThat(producers[ring].push(first, second)).as("ring %d", ring).isTrue();
    }

    /** Puts of 16 bytes, counted by counter 3, into all rings and over all lanes in rotation. */
    void put(int from, int to) {
      for (int i = from; i < to; i++) {
        push(
            i % producers.length,
            HostProducer.putFirst(laneOf(i), i * 16L, 16),
            HostProducer.second(1, i * 16L, 3));
      }
    }

    private int laneOf(int put) {
      return put / producers.length % (LANES / THREADS);
    }

    /** More puts than a lane accepts without a polling peer, to counter 5. */
    void fillLane() {
      for (int i = 0; i < FILL_WARPS_TOTAL; i++) {
        push(0, HostProducer.putFirst(0, 0, 16), HostProducer.second(1, 0, 5));
      }
    }

    /** Pushes a command beyond the end of the source. */
    void pushBadCommand() {
      push(0, HostProducer.putFirst(0, BYTES, 16), HostProducer.second(1, 0, 0));
    }

    /** The thread of the invalid command stops reading and reports the command. */
    void awaitRefusal() {
      await(() -> producers[2].tail() < 0 ? 1 : 0, 1);
      assertThat(proxy.problem())
          .contains(ErrorCode.PROXY_STOPPED.id())
          .contains("thread 0")
          .contains("source " + BYTES)
          .contains("localOffset");
    }

    /** Puts arrive with the data at the time of the flush's answer, or of closing. */
    void flushAndClose(Region region) {
      for (int ring = 0; ring < producers.length; ring++) {
        push(ring, HostProducer.addFirst(0, 100), HostProducer.second(1, 0, 4));
        push(ring, HostProducer.flushFirst(0), HostProducer.second(1, 0, ring));
      }
      for (int ring = 0; ring < producers.length; ring++) {
        awaitWord(memory.flushCounter(ring), 1);
      }
      for (int i = 0; i < PUTS; i++) {
        if (laneOf(i) == 0) {
          region.segment().asSlice(i * 16L, 16).fill((byte) -1);
        }
      }
      proxy.close();
      region.segment().fill((byte) -1);
      assertThat(proxy.posted()).isEqualTo(PUTS + 2L * producers.length);
      assertThat(proxy.lost()).isZero();
      assertThat(proxy.problem()).isNull();
      assertThat(producers[0].push(0, 0)).as("a push after closing").isFalse();
      // Closing flushed everything; the data arrives when the peer polls.
    }

    void awaitWord(long address, long least) {
      await(() -> NativeMemory.getLongAcquire(address), least);
    }

    void await(LongSupplier value, long least) {
      long start = System.nanoTime();
      while (value.getAsLong() < least) {
        assertThat(System.nanoTime() - start)
            .as("%d, not %d; %s", value.getAsLong(), least, proxy.problem())
            .isLessThan(TIMEOUT.toNanos());
        Thread.onSpinWait();
      }
    }

    @Override
    public void close() {
      proxy.close();
      arena.close();
    }
  }

  /** Actions of a rank with its wire and its part of a region. */
  private interface Body {
    void run(Wire wire, Region region, Group group);
  }

  private static void onTwoRanks(String name, Body body) {
    onTwoRanks(name, BYTES, body);
  }

  private static void onTwoRanks(String name, long bytes, Body body) {
    ThreadRanks.run(
        2,
        TIMEOUT.multipliedBy(2),
        group -> {
          try (Wire wire = wire(group, name);
              Region region = wire.allocate(bytes, TIMEOUT)) {
            body.run(wire, region, group);
          }
        });
  }

  @Test
  void pushedCommandsArriveAndAreCounted() {
    onTwoRanks(
        "inproc",
        (wire, region, group) -> {
          if (group.rank() == 0) {
            fill(region);
            try (Sender sender = new Sender(wire, region, config())) {
              sender.put(0, PUTS);
              sender.flushAndClose(region);
            }
          } else {
            receive(wire, region);
          }
          group.barrier(TIMEOUT);
        });
  }

  @Test
  void aReceiverThatDoesNotPollStallsThePushes() {
    onTwoRanks(
        "tcp",
        (wire, region, group) -> {
          if (group.rank() == 0) {
            fill(region);
            try (Sender sender = new Sender(wire, region, config())) {
              // As many commands as the rings and the queues of the lanes hold.
              sender.put(0, 1000);
              sender.await(sender.proxy::posted, THREADS * IN_FLIGHT);
              group.barrier(TIMEOUT);
              assertThat(sender.proxy.posted()).isEqualTo(THREADS * IN_FLIGHT);
              group.barrier(TIMEOUT);
              sender.put(1000, PUTS);
              sender.flushAndClose(region);
            }
          } else {
            group.barrier(TIMEOUT);
            group.barrier(TIMEOUT);
            receive(wire, region);
          }
          group.barrier(TIMEOUT);
        });
  }

  /** The rings are empty then for commands to other ranks. */
  @Test
  void aLongQueueTakesAllThatIsPushedForAReceiverThatDoesNotPoll() {
    onTwoRanks(
        "tcp",
        (wire, region, group) -> {
          if (group.rank() == 0) {
            fill(region);
            try (Sender sender = new Sender(wire, region, config().withQueue(PUTS))) {
              sender.put(0, PUTS);
              for (HostProducer producer : sender.producers) {
                sender.await(producer::tail, PUTS / sender.producers.length);
              }
              assertThat(sender.proxy.posted()).isLessThan(PUTS);
              group.barrier(TIMEOUT);
              sender.flushAndClose(region);
            }
          } else {
            group.barrier(TIMEOUT);
            receive(wire, region);
          }
          group.barrier(TIMEOUT);
        });
  }

  @Test
  void theNoticeThatARankHasClosedFollowsAllThatItHasPushed() {
    onTwoRanks(
        "tcp",
        (wire, region, group) -> {
          if (group.rank() == 0) {
            fill(region);
            try (Sender sender = new Sender(wire, region, config())) {
              sender.put(0, 1000);
              sender.proxy.publishClosed(6);
              group.barrier(TIMEOUT);
            }
          } else {
            new WireWait(wire, 0, TIMEOUT)
                .until(
                    () -> {
                      int ignored = wire.poll(1);
                      return wire.counters().get(6) == LANES;
                    },
                    "the notice on all lanes");
            assertThat(wire.counters().get(3)).isEqualTo(1000);
            group.barrier(TIMEOUT);
          }
          group.barrier(TIMEOUT);
        });
  }

  private static void fill(Region region) {
    for (long at = 0; at < BYTES; at += 8) {
      region.segment().set(ValueLayout.JAVA_LONG, at, at + 1);
    }
  }

  private static void receive(Wire wire, Region region) {
    new WireWait(wire, 1, TIMEOUT)
        .until(
            () -> {
              int ignored = wire.poll(0);
              return wire.counters().get(3) >= PUTS && wire.counters().get(4) >= 400;
            },
            "all puts");
    assertThat(wire.counters().get(3)).isEqualTo(PUTS);
    assertThat(wire.counters().get(4)).isEqualTo(400);
    for (long at = 0; at < BYTES; at += 8) {
      assertThat(region.segment().get(ValueLayout.JAVA_LONG, at)).isEqualTo(at + 1);
    }
  }

  @Test
  void aDeadPeerIsVisibleToKernels() {
    onTwoRanks(
        "inproc",
        (wire, region, group) -> {
          group.barrier(TIMEOUT);
          if (group.rank() == 1) {
            return; // and closes its wire
          }
          try (Sender sender = new Sender(wire, region, config())) {
            sender.awaitWord(sender.memory.failure(1), 1);
            sender.push(0, HostProducer.putFirst(0, 0, 16), HostProducer.second(1, 0, 0));
            sender.proxy.close();
            assertThat(sender.proxy.lost()).isEqualTo(1);
            assertThat(sender.proxy.problem()).isNull();
          }
        });
  }

  /** Rank 1 reports that it has lost its lanes; nothing else of its wire has failed. */
  @ParameterizedTest
  @ValueSource(strings = {"inproc", "tcp"})
  void aPathThatOnlyThePeerHasFoundCutIsVisibleToKernels(String name) {
    onTwoRanks(
        name,
        (wire, region, group) -> {
          group.barrier(TIMEOUT);
          if (group.rank() == 1) {
            for (int lane = 0; lane < LANES; lane++) {
              ((GroupWire) wire)
                  .report(new LaneFailure(0, lane, Cause.LOST, "the cable is cut", 0, 0));
            }
          } else {
            try (Sender sender = new Sender(wire, region, config())) {
              sender.awaitWord(sender.memory.failure(1), 1);
              sender.await(wire::failedLanes, LANES);
              assertThat(Objects.requireNonNull(LaneFailure.of(wire, 1)).text())
                  .isEqualTo("rank 1 has lost it: the cable is cut");
            }
          }
          group.barrier(TIMEOUT);
        });
  }

  @Test
  void invalidCommandStopsOnlyItsThread() {
    onTwoRanks(
        "inproc",
        (wire, region, group) -> {
          if (group.rank() == 0) {
            try (Sender sender = new Sender(wire, region, config())) {
              sender.pushBadCommand();
              sender.awaitRefusal();
              sender.push(1, HostProducer.putFirst(0, 0, 16), HostProducer.second(1, 0, 5));
            }
          }
          group.barrier(TIMEOUT);
          if (group.rank() == 1) {
            assertThat(wire.counters().get(5)).isEqualTo(1);
          }
          group.barrier(TIMEOUT);
        });
  }

  @Test
  void queuedInvalidCommandIsReported() {
    onTwoRanks(
        "tcp",
        (wire, region, group) -> {
          if (group.rank() == 0) {
            try (Sender sender = new Sender(wire, region, config())) {
              sender.fillLane();
              sender.pushBadCommand();
              group.barrier(TIMEOUT);
              sender.awaitRefusal();
            }
            group.barrier(TIMEOUT);
          } else {
            group.barrier(TIMEOUT);
            new WireWait(wire, 0, TIMEOUT)
                .until(
                    () -> wire.counters().get(5) == FILL_WARPS_TOTAL,
                    "the puts before the bad one");
            group.barrier(TIMEOUT);
          }
        });
  }

  /** Rank 0 sends and closes with a short timeout; rank 1 receives nothing. */
  private static void inAHurry(long bytes, Consumer<Sender> body) {
    onTwoRanks(
        "tcp",
        bytes,
        (wire, region, group) -> {
          if (group.rank() == 0) {
            try (Sender sender = new Sender(wire, region, hurried())) {
              body.accept(sender);
            }
          }
          group.barrier(TIMEOUT);
        });
  }

  @Test
  void unsentWorkIsReported() {
    inAHurry(
        BYTES,
        sender -> {
          sender.fillLane();
          sender.await(sender.proxy::posted, IN_FLIGHT);
          sender.proxy.close();
          assertThat(sender.proxy.problem())
              .contains("thread 0")
              .contains("300 ms after it was closed lane 0 to rank 1 had not sent all")
              .contains((FILL_WARPS_TOTAL - IN_FLIGHT) + " commands waited");
        });
  }

  @Test
  void anInterruptedCloseKeepsTheRingsAndMayBeCalledAgain() {
    inAHurry(
        BYTES,
        sender -> {
          sender.fillLane();
          sender.await(sender.proxy::posted, IN_FLIGHT);
          Thread.currentThread().interrupt();
          assertThatThrownBy(sender.proxy::close)
              .isInstanceOf(Ep4jException.class)
              .hasMessageStartingWith(ErrorCode.PROXY_STUCK.id());
          assertThat(Thread.interrupted()).isTrue();
        });
  }

  /** The lane accepts four puts that no socket holds while the receiver reads nothing. */
  @Test
  void acceptedBytesNotSentInTimeAreReported() {
    long much = 15L << 20;
    inAHurry(
        much,
        sender -> {
          for (int i = 0; i < 4; i++) {
            sender.push(0, HostProducer.putFirst(0, 0, much), HostProducer.second(1, 0, 5));
          }
          sender.await(sender.proxy::posted, 4);
          sender.proxy.close();
          assertThat(sender.proxy.problem())
              .contains("lane 0 to rank 1 had not sent all")
              .contains("0 commands waited, 0 of 4 accepted were delivered");
        });
  }

  @Test
  void aWireWithOtherProgressContextsIsRefused() {
    onTwoRanks(
        "inproc",
        (wire, region, group) -> {
          try (Arena arena = Arena.ofShared()) {
            MemorySegment words = arena.allocate(1 << 16);
            assertThatThrownBy(() -> Proxy.over(words, wire, region, region, ProxyConfig.of(1)))
                .isInstanceOf(InvalidArgumentException.class)
                .hasMessageStartingWith(ErrorCode.PROXY_CONFIG.id());
            group.barrier(TIMEOUT);
          }
        });
  }
}
