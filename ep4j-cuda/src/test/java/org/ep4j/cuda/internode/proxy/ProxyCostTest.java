package org.ep4j.cuda.internode.proxy;

import static org.assertj.core.api.Assertions.assertThat;

import com.sun.management.ThreadMXBean;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.management.ManagementFactory;
import java.time.Duration;
import java.util.Arrays;
import java.util.List;
import org.ep4j.group.ThreadRanks;
import org.ep4j.wire.Region;
import org.ep4j.wire.Wire;
import org.ep4j.wire.WireConfig;
import org.ep4j.wire.WireWait;
import org.ep4j.wire.Wires;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Cost of a proxy's threads: no allocation per command when warm, and no busy core when idle. */
class ProxyCostTest {
  private static final Duration TIMEOUT = Duration.ofSeconds(30);
  private static final int LANES = 2;
  private static final int COMMANDS = 2000;

  /**
   * The first rounds warm up; the best of the others counts, because JIT compilation happens at any
   * time.
   */
  private static final int ROUNDS = 40;

  private static final int WARM = 10;

  @ParameterizedTest
  @ValueSource(strings = {"inproc", "tcp"})
  void postingAllocatesNothing(String kind) {
    ThreadRanks.run(
        2,
        TIMEOUT.multipliedBy(2),
        group -> {
          try (Wire wire =
                  Wires.open(
                      group,
                      WireConfig.builder()
                          .wire(kind)
                          .lanes(LANES)
                          .counters(1)
                          .timeout(TIMEOUT)
                          .build());
              Region region = wire.allocate(4096, TIMEOUT)) {
            if (group.rank() == 0) {
              assertThat(leastAllocated(wire, region)).isLessThan(COMMANDS);
            } else {
              long all = 2L * COMMANDS * ROUNDS;
              new WireWait(wire, 0, TIMEOUT).until(() -> wire.counters().get(0) >= all, "all");
            }
            group.barrier(TIMEOUT);
          }
        });
  }

  @Test
  void longIdleThreadSleeps() {
    ThreadRanks.run(
        2,
        TIMEOUT.multipliedBy(2),
        group -> {
          try (Wire wire =
                  Wires.open(group, WireConfig.builder().wire("inproc").timeout(TIMEOUT).build());
              Region region = wire.allocate(4096, TIMEOUT)) {
            if (group.rank() == 0) {
              awaitRest(wire, region);
            }
            group.barrier(TIMEOUT);
          }
        });
  }

  /** Waits until the thread sleeps, which only a resting thread does; then it still posts. */
  private static void awaitRest(Wire wire, Region region) {
    ProxyConfig config = new ProxyConfig(1, 1, 1024, 0, List.of(), TIMEOUT);
    ThreadMXBean threads = (ThreadMXBean) ManagementFactory.getThreadMXBean();
    try (Arena arena = Arena.ofShared()) {
      MemorySegment words =
          arena.allocate(Proxy.memory(0, wire, config).bytes(), RingMemory.TAIL_BYTES);
      long[] before = threads.getAllThreadIds();
      try (Proxy proxy = Proxy.over(words, wire, region, region, config)) {
        long thread = idOfTheNew(before, threads);
        long start = System.nanoTime();
        while (threads.getThreadInfo(thread).getThreadState() != Thread.State.TIMED_WAITING) {
          assertThat(System.nanoTime() - start).as("ns without rest").isLessThan(TIMEOUT.toNanos());
        }
        HostProducer producer = new HostProducer(Proxy.memory(words.address(), wire, config), 0);
        assertThat(producer.push(HostProducer.addFirst(0, 1), HostProducer.second(1, 0, 0)))
            .isTrue();
        while (proxy.posted() == 0) {
          assertThat(System.nanoTime() - start)
              .as("ns until the command was posted")
              .isLessThan(2 * TIMEOUT.toNanos());
          Thread.onSpinWait();
        }
      }
    }
  }

  /** Bytes of the best round. */
  private static long leastAllocated(Wire wire, Region region) {
    ProxyConfig config = new ProxyConfig(1, 1, 1024, 0, List.of(), TIMEOUT);
    ThreadMXBean threads = (ThreadMXBean) ManagementFactory.getThreadMXBean();
    long least = Long.MAX_VALUE;
    try (Arena arena = Arena.ofShared()) {
      MemorySegment words =
          arena.allocate(Proxy.memory(0, wire, config).bytes(), RingMemory.TAIL_BYTES);
      RingMemory memory = Proxy.memory(words.address(), wire, config);
      long[] before = threads.getAllThreadIds();
      try (Proxy proxy = Proxy.over(words, wire, region, region, config)) {
        long thread = idOfTheNew(before, threads);
        HostProducer producer = new HostProducer(memory, 0);
        for (int round = 0; round < ROUNDS; round++) {
          long allocated = threads.getThreadAllocatedBytes(thread);
          for (int i = 0; i < COMMANDS; i++) {
            int lane = i % LANES;
            assertThat(
                    producer.push(
                            HostProducer.putFirst(lane, 0, 64), HostProducer.second(1, 1024, 0))
                        && producer.push(
                            HostProducer.addFirst(lane, 1), HostProducer.second(1, 0, 0)))
                .as("%s", proxy.problem())
                .isTrue();
          }
          long posted = 2L * COMMANDS * (round + 1);
          while (proxy.posted() < posted) {
            assertThat(proxy.problem()).isNull();
            Thread.onSpinWait();
          }
          if (round >= WARM) {
            least = Math.min(least, threads.getThreadAllocatedBytes(thread) - allocated);
          }
        }
      }
    }
    return least;
  }

  private static long idOfTheNew(long[] before, ThreadMXBean threads) {
    return Arrays.stream(threads.getAllThreadIds())
        .filter(id -> Arrays.stream(before).noneMatch(old -> old == id))
        .filter(id -> threads.getThreadInfo(id).getThreadName().startsWith("ep4j-proxy"))
        .findFirst()
        .orElseThrow();
  }
}
