package org.ep4j.bench.proxy;

import java.time.Duration;
import java.util.List;
import java.util.concurrent.atomic.AtomicBoolean;
import org.ep4j.bench.VerificationFailure;
import org.ep4j.cuda.driver.CudaDevice;
import org.ep4j.cuda.internode.proxy.Proxy;
import org.ep4j.cuda.internode.proxy.ProxyConfig;
import org.ep4j.cuda.probe.ProxyProbe;
import org.ep4j.error.Ep4jException;
import org.ep4j.error.ErrorCode;
import org.ep4j.memory.NativeMemory;
import org.ep4j.wire.LaneLosses;
import org.ep4j.wire.Region;

/** A GPU that pushes commands, and proxies with several numbers of threads that discard them. */
public final class ProxyBench implements AutoCloseable {
  private static final int PEERS = 8;
  private static final int WARPS_OF_BLOCK = 8;
  private static final int SKIPPED = 20;

  /** Commands of a warp before the first measurement of a proxy, for the JIT compiler. */
  private static final int WARM_UP = 4096;

  private static final Duration TIMEOUT = Duration.ofSeconds(30);

  private final CudaDevice device;
  private final ProxyProbe probe;
  private final int rings;
  private final int capacity;
  private final List<Integer> cores;

  private ProxyBench(CudaDevice device, int rings, int capacity, List<Integer> cores) {
    this.device = device;
    this.probe = ProxyProbe.of(device);
    this.rings = rings;
    this.capacity = capacity;
    this.cores = cores;
  }

  /** On the first GPU. */
  public static ProxyBench open(int rings, int capacity, List<Integer> cores) {
    CudaDevice device = CudaDevice.open(0);
    try {
      device.makeCurrent();
      return new ProxyBench(device, rings, capacity, cores);
    } catch (RuntimeException e) {
      device.close();
      throw e;
    }
  }

  private Proxy proxy(NullWire wire, Region region, int threads) {
    List<Integer> pinned = cores.isEmpty() ? List.of() : cores.subList(0, threads);
    return Proxy.open(
        device,
        wire,
        region,
        region,
        LaneLosses.of(wire),
        new ProxyConfig(threads, rings * threads, capacity, 0, pinned, TIMEOUT));
  }

  /** Commands per second, from the launch until the last is posted. */
  public double rate(int threads, int warps, long warpCommands, int together) {
    try (NullWire wire = new NullWire(PEERS, threads, 0, 0);
        Region region = wire.region()) {
      double nanos;
      try (Proxy proxy = proxy(wire, region, threads)) {
        long before = push(proxy, warps, WARM_UP, together, 0);
        long start = System.nanoTime();
        long ignored = push(proxy, warps, warpCommands, together, before);
        nanos = System.nanoTime() - start;
      }
      long sum = warps * (units(WARM_UP) + units(warpCommands));
      if (wire.checksum() != sum) {
        throw new VerificationFailure(
            "commands are missing, duplicated or wrong: their sum is %d, not %d"
                .formatted(wire.checksum(), sum));
      }
      return warps * warpCommands / nanos * 1e9;
    }
  }

  /** Sum of the units in the commands of a warp. */
  private static long units(long commands) {
    return commands * (commands - 1) / 2;
  }

  /** Pushes commands and waits for them; returns the total of posted commands. */
  private long push(Proxy proxy, int warps, long warpCommands, int together, long before) {
    long refused =
        probe.push(
            proxy, warps / WARPS_OF_BLOCK, WARPS_OF_BLOCK, warpCommands, together, PEERS, TIMEOUT);
    long wanted = before + warps * warpCommands;
    long start = System.nanoTime();
    while (refused == 0 && proxy.posted() < wanted) {
      if (System.nanoTime() - start > TIMEOUT.toNanos()) {
        throw new VerificationFailure(
            "only %d of %d commands were posted".formatted(proxy.posted(), wanted));
      }
      Thread.onSpinWait();
    }
    if (refused != 0) {
      throw new Ep4jException(
          ErrorCode.PROXY_REFUSED, refused + " warps were refused: " + proxy.problem());
    }
    return wanted;
  }

  /** Times single commands. */
  public RoundTimes rounds(int threads, int rounds, Duration pause) {
    // The first of two runs is for the JIT compiler.
    RoundTimes ignored = timed(threads, rounds, pause);
    return timed(threads, rounds, pause);
  }

  private RoundTimes timed(int threads, int rounds, Duration pause) {
    NativeMemory.putLongRelease(probe.answer(), 0);
    try (NullWire wire = new NullWire(PEERS, threads, probe.answer(), rounds);
        Region region = wire.region()) {
      long[] words;
      AtomicBoolean done = new AtomicBoolean();
      try (Proxy proxy = proxy(wire, region, threads)) {
        Thread clock = Thread.ofPlatform().daemon().name("ep4j-clock").start(() -> tick(done));
        try {
          words = probe.rounds(proxy, rounds, pause, TIMEOUT);
        } finally {
          done.set(true);
          join(clock);
        }
      }
      if (NativeMemory.getLongAcquire(probe.answer()) != rounds || words[words.length - 1] == 0) {
        throw new VerificationFailure(
            "%d of %d commands were answered"
                .formatted(NativeMemory.getLongAcquire(probe.answer()), rounds));
      }
      return RoundTimes.of(words, wire.posts, SKIPPED);
    }
  }

  private void tick(AtomicBoolean done) {
    while (!done.getOpaque()) {
      NativeMemory.putLongRelease(probe.clock(), System.nanoTime());
    }
  }

  private static void join(Thread clock) {
    try {
      if (!clock.join(TIMEOUT)) {
        throw new Ep4jException(
            ErrorCode.MEASUREMENT_INTERRUPTED, "the thread that writes the clock has not ended");
      }
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
    }
  }

  @Override
  public void close() {
    probe.close();
    device.close();
  }
}
