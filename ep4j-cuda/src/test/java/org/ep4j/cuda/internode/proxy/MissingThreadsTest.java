package org.ep4j.cuda.internode.proxy;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import org.ep4j.group.Group;
import org.ep4j.wire.Region;
import org.ep4j.wire.Wire;
import org.ep4j.wire.WireConfig;
import org.ep4j.wire.Wires;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** A proxy on a system that starts no thread, or has no core of that number. */
@Timeout(60)
class MissingThreadsTest {
  private static final Duration TIMEOUT = Duration.ofSeconds(20);
  private static final int THREADS = 3;
  private static final String NO_THREAD = "unable to create native thread";

  /** Actions of a single rank with a wire and memory for rings. */
  private interface Body {
    void run(MemorySegment words, Wire wire, Region region);
  }

  private static ProxyConfig config(List<Integer> cores) {
    return new ProxyConfig(THREADS, THREADS, 64, 0, cores, TIMEOUT);
  }

  private static void alone(Body body) {
    WireConfig settings =
        WireConfig.builder().wire("inproc").lanes(THREADS).progressContexts(THREADS).build();
    try (Group group = Group.inProcess(1).getFirst();
        Wire wire = Wires.open(group, settings);
        Region region = wire.allocate(64, TIMEOUT);
        Arena arena = Arena.ofShared()) {
      long bytes = Proxy.memory(0, wire, config(List.of())).bytes();
      body.run(arena.allocate(bytes, RingMemory.TAIL_BYTES), wire, region);
    }
  }

  @Test
  void startedThreadsEndIfAnotherCannotStart() {
    alone(
        (words, wire, region) -> {
          List<Thread> started = new ArrayList<>();
          assertThatThrownBy(
                  () ->
                      Proxy.over(
                          words,
                          wire,
                          region,
                          region,
                          config(List.of()),
                          thread -> {
                            if (started.size() == THREADS - 1) {
                              throw new OutOfMemoryError(NO_THREAD);
                            }
                            thread.start();
                            started.add(thread);
                          }))
              .isInstanceOf(OutOfMemoryError.class)
              .hasMessage(NO_THREAD);
          assertThat(started).hasSize(THREADS - 1).noneMatch(Thread::isAlive);
        });
  }

  @Test
  void missingCoreStopsItsRingsAndIsReported() {
    alone(
        (words, wire, region) -> {
          int none = CpuAffinity.MASK_BYTES * Byte.SIZE - 1;
          try (Proxy proxy =
              Proxy.over(words, wire, region, region, config(List.of(none, none, none)))) {
            long start = System.nanoTime();
            while (proxy.problem() == null) {
              assertThat(System.nanoTime() - start).isLessThan(TIMEOUT.toNanos());
              Thread.onSpinWait();
            }
            assertThat(proxy.problem()).contains("sched_setaffinity to core " + none);
          }
        });
  }
}
