package org.ep4j.cuda.internode.proxy;

import static org.assertj.core.api.Assertions.assertThat;

import java.lang.foreign.MemorySegment;
import java.time.Duration;
import java.util.Map;
import java.util.stream.IntStream;
import org.ep4j.cuda.driver.CudaDevice;
import org.ep4j.cuda.driver.CudaModule;
import org.ep4j.cuda.driver.CudaStream;
import org.ep4j.cuda.driver.DeviceMemory;
import org.ep4j.cuda.driver.Gpu;
import org.ep4j.cuda.driver.Launch;
import org.ep4j.cuda.driver.LaunchConfig;
import org.ep4j.cuda.driver.PinnedMemory;
import org.ep4j.cuda.jit.KernelCompiler;
import org.ep4j.cuda.struct.CommandRings;
import org.ep4j.memory.NativeMemory;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** Many warps of a GPU push into rings that the test reads. Needs a GPU. */
class CommandRingGpuTest {
  private static final int RINGS = 3;
  private static final int CAPACITY = 64;
  private static final int BLOCKS = 16;
  private static final int WARPS = 8;
  private static final int PEERS = 5;
  private static final int CONTROL = RINGS * RingMemory.CONTROL_BYTES;

  @SuppressWarnings("NullAway.Init") // before each test
  private CudaDevice device;

  @SuppressWarnings("NullAway.Init") // before each test
  private CudaStream stream;

  @SuppressWarnings("NullAway.Init") // before each test
  private CudaModule module;

  @SuppressWarnings("NullAway.Init") // before each test
  private PinnedMemory words;

  @SuppressWarnings("NullAway.Init") // before each test
  private DeviceMemory control;

  @SuppressWarnings("NullAway.Init") // before each test
  private Launch launch;

  @SuppressWarnings("NullAway.Init") // before each test
  private RingMemory memory;

  @BeforeEach
  void open() {
    device = Gpu.open();
    stream = CudaStream.create(device);
    module = KernelCompiler.standard().load(device, "probe/proxy_probe.cu", Map.of());
    words = PinnedMemory.allocate(device, new RingMemory(0, RINGS, CAPACITY, 8, 8).bytes());
    memory = new RingMemory(words.hostAddress(), RINGS, CAPACITY, 8, 8);
    control = DeviceMemory.allocate(device, CONTROL + Long.BYTES);
    control.fill8(0, control.bytes(), (byte) 0, stream);
    CommandRings rings = new CommandRings();
    launch =
        Launch.of(
            module.kernel("ep4j_proxy_push"),
            LaunchConfig.of(BLOCKS, 32 * WARPS),
            rings.bytes(),
            8,
            8,
            8,
            8,
            8);
    rings.placeIn(launch.parameter(0));
    memory.describe(rings, words.deviceAddress(), control.address());
    stream.synchronize();
  }

  @AfterEach
  void close() {
    if (launch != null) {
      launch.close();
      control.close();
      words.close();
      module.close();
      stream.close();
      device.close();
    }
  }

  private void push(long count, int together, Duration timeout) {
    launch.setLong(1, count);
    launch.setLong(2, together);
    launch.setLong(3, PEERS);
    launch.setLong(4, timeout.toNanos());
    launch.setLong(5, control.address() + CONTROL);
    launch.launch(stream);
  }

  private long refused() {
    stream.synchronize();
    long[] count = new long[1];
    control.copyTo(CONTROL, MemorySegment.ofArray(count));
    return count[0];
  }

  @ParameterizedTest
  @CsvSource({"32, 5000", "7, 1000", "1, 1000"})
  void everyCommandArrivesOnceAndInTheOrderOfItsWarp(int together, int count) {
    push(count, together, Duration.ofSeconds(20));
    CommandRing[] rings =
        IntStream.range(0, RINGS)
            .mapToObj(ring -> new CommandRing(memory, ring))
            .toArray(CommandRing[]::new);
    int[] next = new int[BLOCKS * WARPS];
    int[] ring = new int[1];
    CommandRing.Taker taker =
        (first, second) -> {
          int warp = (int) (Command.target(second) / Command.UNIT);
          assertThat(warp % RINGS).isEqualTo(ring[0]);
          assertThat(Command.source(first)).isEqualTo((long) next[warp] * Command.UNIT);
          assertThat(Command.operation(first)).isEqualTo(Command.PUT);
          assertThat(Command.bytes(first)).isEqualTo(Command.UNIT);
          assertThat(Command.counter(second)).isEqualTo(Command.NO_COUNTER);
          assertThat(Command.destination(second)).isEqualTo(1 + (warp + next[warp]) % PEERS);
          next[warp]++;
          return true;
        };
    long left = (long) next.length * count;
    long start = System.nanoTime();
    while (left > 0) {
      for (ring[0] = 0; ring[0] < RINGS; ring[0]++) {
        left -= rings[ring[0]].drain(taker, 50);
      }
      assertThat(System.nanoTime() - start).as("%d are missing", left).isLessThan(30_000_000_000L);
    }
    assertThat(refused()).isZero();
    assertThat(next).containsOnly(count);
    for (CommandRing each : rings) {
      assertThat(each.drain(taker, 1)).isZero();
    }
  }

  @Test
  void aHostThatNeverReadsIsReportedWithoutHang() {
    push(1000, 32, Duration.ofMillis(100));
    assertThat(refused()).isEqualTo(BLOCKS * WARPS);
    for (int ring = 0; ring < RINGS; ring++) {
      long record = memory.record(ring);
      assertThat(NativeMemory.getLongAcquire(record + RingMemory.STATE)).isEqualTo(1);
      assertThat(NativeMemory.getLong(record + RingMemory.TICKET))
          .isGreaterThanOrEqualTo((long) CAPACITY);
      assertThat(NativeMemory.getLong(record + RingMemory.TAIL_SEEN)).isZero();
      assertThat(NativeMemory.getLong(record + RingMemory.LEFT)).isNegative();
    }
  }

  @Test
  void ringsThatTheHostStopsRefuseImmediately() {
    for (int ring = 0; ring < RINGS; ring++) {
      new CommandRing(memory, ring).stop();
    }
    long start = System.nanoTime();
    push(1000, 32, Duration.ofSeconds(20));
    assertThat(refused()).isEqualTo(BLOCKS * WARPS);
    assertThat(System.nanoTime() - start).isLessThan(10_000_000_000L);
    assertThat(NativeMemory.getLongAcquire(memory.record(0) + RingMemory.STATE)).isZero();
  }
}
