package org.ep4j.cuda.proxy;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.time.Duration;
import java.util.List;
import org.ep4j.InvalidArgumentException;
import org.ep4j.group.Group;
import org.ep4j.group.ThreadRanks;
import org.ep4j.memory.NativeMemory;
import org.ep4j.wire.Region;
import org.ep4j.wire.Wire;
import org.ep4j.wire.WireConfig;
import org.ep4j.wire.WireWait;
import org.ep4j.wire.Wires;
import org.junit.jupiter.api.Test;

/** Threads push in place of a GPU; real wires carry what the proxy posts. */
class ProxyTest {
  private static final Duration PATIENCE = Duration.ofSeconds(20);
  private static final int THREADS = 2;
  private static final int PUTS = 5000;
  private static final long BYTES = 16L * PUTS;

  private static ProxyConfig config() {
    return new ProxyConfig(THREADS, 2 * THREADS, 64, 8, List.of(), PATIENCE);
  }

  private static Wire wire(Group group, String name) {
    return Wires.open(
        group,
        WireConfig.builder()
            .wire(name)
            .lanes(4)
            .strands(THREADS)
            .counters(8)
            .operationsInFlight(16)
            .timeout(PATIENCE)
            .build());
  }

  /** A proxy of rank 0, with what stands for its kernels. */
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

    void await(long address, long least) {
      long start = System.nanoTime();
      while (NativeMemory.getLongAcquire(address) < least) {
        assertThat(System.nanoTime() - start).isLessThan(PATIENCE.toNanos());
        Thread.onSpinWait();
      }
    }

    @Override
    public void close() {
      proxy.close();
      arena.close();
    }
  }

  @Test
  void whatIsPushedArrivesAndIsCounted() {
    deliver("inproc");
  }

  /** Sixteen pieces of work in flight and a receiver that polls now and then. */
  @Test
  void aSlowReceiverHoldsThePushesBack() {
    deliver("tcp");
  }

  private static void deliver(String name) {
    ThreadRanks.run(
        2,
        PATIENCE,
        group -> {
          try (Wire wire = wire(group, name);
              Region region = wire.allocate(BYTES, PATIENCE)) {
            if (group.rank() == 0) {
              send(wire, region);
            } else {
              receive(wire, region);
            }
            group.barrier(PATIENCE);
          }
        });
  }

  private static void send(Wire wire, Region region) {
    for (long at = 0; at < BYTES; at += 8) {
      region.segment().set(ValueLayout.JAVA_LONG, at, at + 1);
    }
    try (Sender sender = new Sender(wire, region, config())) {
      for (int i = 0; i < PUTS; i++) {
        assertThat(
                sender.producers[i % 4].push(
                    HostProducer.putFirst(i / 4 % 2, i * 16L, 16),
                    HostProducer.second(1, i * 16L, 3)))
            .isTrue();
      }
      for (int ring = 0; ring < 4; ring++) {
        HostProducer producer = sender.producers[ring];
        assertThat(producer.push(HostProducer.addFirst(0, 100), HostProducer.second(1, 0, 4)))
            .isTrue();
        assertThat(producer.push(HostProducer.flushFirst(0), HostProducer.second(1, 0, ring)))
            .isTrue();
        sender.await(sender.memory.notice(ring), 1);
      }
      sender.proxy.close();
      assertThat(sender.proxy.posted()).isEqualTo(PUTS + 8);
      assertThat(sender.proxy.lost()).isZero();
      assertThat(sender.proxy.problem()).isNull();
      assertThat(sender.producers[0].push(0, 0)).as("a push after closing").isFalse();
    }
    // Closing handed everything over; it arrives as the peer polls.
  }

  private static void receive(Wire wire, Region region) {
    WireWait other = new WireWait(wire, 1, PATIENCE);
    WireWait wait = new WireWait(wire, 0, PATIENCE);
    other.until(
        () -> {
          int ignored = wire.poll(0);
          return wire.counters().get(3) >= PUTS && wire.counters().get(4) >= 400;
        },
        "all puts");
    wait.counter(3, PUTS, 0);
    assertThat(wire.counters().get(3)).isEqualTo(PUTS);
    assertThat(wire.counters().get(4)).isEqualTo(400);
    for (long at = 0; at < BYTES; at += 8) {
      assertThat(region.segment().get(ValueLayout.JAVA_LONG, at)).isEqualTo(at + 1);
    }
  }

  @Test
  void aPeerThatIsGoneIsAWordThatKernelsSee() {
    ThreadRanks.run(
        2,
        PATIENCE,
        group -> {
          try (Wire wire = wire(group, "inproc");
              Region region = wire.allocate(BYTES, PATIENCE)) {
            group.barrier(PATIENCE);
            if (group.rank() == 1) {
              return; // and closes its wire
            }
            try (Sender sender = new Sender(wire, region, config())) {
              sender.await(sender.memory.failure(1), 1);
              assertThat(
                      sender.producers[0].push(
                          HostProducer.putFirst(0, 0, 16), HostProducer.second(1, 0, 0)))
                  .isTrue();
              sender.proxy.close();
              assertThat(sender.proxy.lost()).isEqualTo(1);
              assertThat(sender.proxy.problem()).isNull();
            }
          }
        });
  }

  @Test
  void aCommandThatCannotBeStopsItsThreadOnly() {
    ThreadRanks.run(
        2,
        PATIENCE,
        group -> {
          try (Wire wire = wire(group, "inproc");
              Region region = wire.allocate(BYTES, PATIENCE)) {
            if (group.rank() == 0) {
              try (Sender sender = new Sender(wire, region, config())) {
                assertThat(
                        sender.producers[0].push(
                            HostProducer.putFirst(0, BYTES, 16), HostProducer.second(1, 0, 0)))
                    .isTrue();
                long start = System.nanoTime();
                while (sender.producers[2].tail() >= 0) {
                  assertThat(System.nanoTime() - start).isLessThan(PATIENCE.toNanos());
                  Thread.onSpinWait();
                }
                assertThat(sender.proxy.problem())
                    .contains("thread 0")
                    .contains("source " + BYTES)
                    .contains("localOffset");
                assertThat(
                        sender.producers[1].push(
                            HostProducer.putFirst(0, 0, 16), HostProducer.second(1, 0, 5)))
                    .isTrue();
              }
            }
            group.barrier(PATIENCE);
            if (group.rank() == 1) {
              assertThat(wire.counters().get(5)).isEqualTo(1);
            }
            group.barrier(PATIENCE);
          }
        });
  }

  @Test
  void aWireWithOtherStrandsIsRefused() {
    ThreadRanks.run(
        2,
        PATIENCE,
        group -> {
          try (Wire wire = wire(group, "inproc");
              Region region = wire.allocate(16, PATIENCE);
              Arena arena = Arena.ofShared()) {
            MemorySegment words = arena.allocate(1 << 16);
            assertThatThrownBy(() -> Proxy.over(words, wire, region, region, ProxyConfig.of(1)))
                .isInstanceOf(InvalidArgumentException.class)
                .hasMessageContaining("strands");
            group.barrier(PATIENCE);
          }
        });
  }
}
