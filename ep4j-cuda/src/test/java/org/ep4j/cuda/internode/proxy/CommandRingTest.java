package org.ep4j.cuda.internode.proxy;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.IOException;
import java.io.InputStream;
import java.lang.foreign.Arena;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.SplittableRandom;
import org.ep4j.memory.NativeMemory;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Threads push instead of a GPU; the host reads each command once, in the order of its thread. */
class CommandRingTest {
  private static final int CAPACITY = 64;
  private static final int COMMANDS = 30_000;

  private static RingMemory memory(Arena arena) {
    RingMemory sizes = new RingMemory(0, 1, CAPACITY, 2, 4);
    long host = arena.allocate(sizes.bytes(), RingMemory.TAIL_BYTES).address();
    return new RingMemory(host, 1, CAPACITY, 2, 4);
  }

  @ParameterizedTest
  @ValueSource(ints = {1, 3})
  void everyCommandArrivesOnceAndInOrder(int producers) throws InterruptedException {
    try (Arena arena = Arena.ofShared()) {
      RingMemory memory = memory(arena);
      HostProducer producer = new HostProducer(memory, 0);
      long payload = arena.allocate((long) producers * Long.BYTES, Long.BYTES).address();
      List<Thread> threads = new ArrayList<>();
      for (int p = 0; p < producers; p++) {
        int self = p;
        threads.add(
            Thread.ofPlatform()
                .start(
                    () -> {
                      for (int i = 0; i < COMMANDS; i++) {
                        // A plain write: the command that follows makes it visible.
                        NativeMemory.putLong(payload + self * 8L, i + 1L);
                        boolean ignored =
                            producer.push(
                                HostProducer.putFirst(self, i * 16L, 16),
                                HostProducer.second(1, self * 16L, self));
                      }
                    }));
      }
      CommandRing ring = new CommandRing(memory, 0);
      int[] next = new int[producers];
      boolean[] late = new boolean[1];
      SplittableRandom random = new SplittableRandom(7);
      CommandRing.Taker taker =
          (first, second) -> {
            int self = Command.lane(first);
            assertThat(Command.source(first)).isEqualTo(next[self] * 16L);
            assertThat(Command.target(second)).isEqualTo(self * 16L);
            late[0] |= NativeMemory.getLong(payload + self * 8L) <= next[self];
            // Sometimes the taker rejects the command, and the ring must offer it again.
            if (random.nextInt(1000) == 0) {
              return false;
            }
            next[self]++;
            return true;
          };
      long start = System.nanoTime();
      int read = 0;
      while (read < producers * COMMANDS) {
        int now = ring.drain(taker, 1 + random.nextInt(100));
        read += now;
        if (now == 0) {
          Thread.yield();
        }
        assertThat(System.nanoTime() - start).as("%d commands in time", read).isLessThan(60L << 30);
      }
      for (Thread thread : threads) {
        assertThat(thread.join(java.time.Duration.ofSeconds(10))).isTrue();
      }
      assertThat(ring.drain(taker, 1)).isZero();
      assertThat(next).containsOnly(COMMANDS);
      assertThat(late[0]).as("a command visible before its data").isFalse();
      assertThat(producer.tail()).isEqualTo((long) producers * COMMANDS);
    }
  }

  @Test
  void stoppedRingIsMarkedAndKeepsItsTail() {
    try (Arena arena = Arena.ofShared()) {
      RingMemory memory = memory(arena);
      HostProducer producer = new HostProducer(memory, 0);
      CommandRing ring = new CommandRing(memory, 0);
      assertThat(producer.push(HostProducer.flushFirst(0), HostProducer.second(1, 0, 0))).isTrue();
      assertThat(ring.drain((first, second) -> true, 8)).isEqualTo(1);
      ring.stop();
      assertThat(producer.push(0, 0)).isFalse();
      assertThat(producer.tail()).isEqualTo(1 | RingMemory.STOPPED);
      assertThat(ring.drain((first, second) -> true, 8)).isZero();
    }
  }

  @Test
  void fieldsAreThoseOfTheKernels() throws IOException {
    String text;
    try (InputStream in =
        CommandRingTest.class.getResourceAsStream(
            "/org/ep4j/cuda/kernels/transport/command_ring.cuh")) {
      assertThat(in).isNotNull();
      text = new String(in.readAllBytes(), StandardCharsets.UTF_8);
    }
    assertThat(text)
        .contains("COMMAND_UNIT = " + Command.UNIT + ";")
        .contains("LENGTH_SHIFT = " + Command.LENGTH_SHIFT + ";")
        .contains("LANE_SHIFT = " + Command.LANE_SHIFT + ";")
        .contains("OPERATION_SHIFT = " + Command.OPERATION_SHIFT + ";")
        .contains("COUNTER_SHIFT = " + Command.COUNTER_SHIFT + ";")
        .contains("DESTINATION_SHIFT = " + Command.DESTINATION_SHIFT + ";")
        .contains("NO_COUNTER = (1u << 19) - 1;")
        .contains("TAIL_WORDS = " + RingMemory.TAIL_BYTES / 8 + ";")
        .contains(
            "COMMAND_PUT = %d, COMMAND_ADD = %d, COMMAND_FLUSH = %d"
                .formatted(Command.PUT, Command.ADD, Command.FLUSH));
    assertThat(Command.NO_COUNTER).isEqualTo((1 << 19) - 1);
  }
}
