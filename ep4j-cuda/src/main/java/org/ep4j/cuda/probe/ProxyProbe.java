package org.ep4j.cuda.probe;

import java.lang.foreign.MemorySegment;
import java.time.Duration;
import java.util.Map;
import org.ep4j.cuda.driver.CudaDevice;
import org.ep4j.cuda.driver.CudaModule;
import org.ep4j.cuda.driver.CudaStream;
import org.ep4j.cuda.driver.DeviceMemory;
import org.ep4j.cuda.driver.Launch;
import org.ep4j.cuda.driver.LaunchConfig;
import org.ep4j.cuda.driver.PinnedMemory;
import org.ep4j.cuda.driver.ResourceStack;
import org.ep4j.cuda.internode.proxy.Proxy;
import org.ep4j.cuda.jit.KernelCompiler;
import org.ep4j.cuda.struct.CommandRings;

/**
 * Pushes commands into the rings of a proxy, see {@code kernels/probe/proxy_probe.cu}. One thread.
 */
public final class ProxyProbe implements AutoCloseable {
  /** Words of a round: see {@code ep4j_proxy_rounds}. */
  public static final int WORDS = 6;

  private static final int CLOCK = 128;
  private static final int WORDS_BYTES = 256;

  private final ResourceStack owned = new ResourceStack();
  private final CudaDevice device;
  private final CudaModule module;
  private final CudaStream stream;
  private final PinnedMemory words;

  private ProxyProbe(CudaDevice device) {
    this.device = device;
    boolean complete = false;
    try {
      module = owned.own(KernelCompiler.standard().load(device, "probe/proxy_probe.cu", Map.of()));
      words = owned.own(PinnedMemory.allocate(device, WORDS_BYTES));
      stream = owned.own(CudaStream.create(device));
      complete = true;
    } finally {
      if (!complete) {
        owned.close();
      }
    }
  }

  /** A probe on a device, which is current for this thread. */
  public static ProxyProbe of(CudaDevice device) {
    return new ProxyProbe(device);
  }

  /** Address where the host writes the number of answered rounds, with release. */
  public long answer() {
    return words.hostAddress();
  }

  /** Address where the host writes its clock continuously while rounds run. */
  public long clock() {
    return words.hostAddress() + CLOCK;
  }

  /**
   * Every warp pushes its commands; returns when the kernel has ended and all commands are in the
   * rings.
   *
   * @param warpCommands commands of each warp
   * @param together commands of a push, 1 to 32
   * @param peers number of destinations, starting with rank 1
   * @return number of warps with a failed push
   */
  public long push(
      Proxy proxy,
      int blocks,
      int warps,
      long warpCommands,
      int together,
      int peers,
      Duration timeout) {
    CommandRings rings = new CommandRings();
    try (DeviceMemory refused = DeviceMemory.allocate(device, Long.BYTES);
        Launch launch =
            Launch.of(
                module.kernel("ep4j_proxy_push"),
                LaunchConfig.of(blocks, 32 * warps),
                rings.bytes(),
                8,
                8,
                8,
                8,
                8)) {
      refused.fill8(0, Long.BYTES, (byte) 0, stream);
      rings.placeIn(launch.parameter(0));
      proxy.describe(rings);
      launch.setLong(1, warpCommands);
      launch.setLong(2, together);
      launch.setLong(3, peers);
      launch.setLong(4, timeout.toNanos());
      launch.setLong(5, refused.address());
      launch.launch(stream);
      stream.synchronize();
      long[] count = new long[1];
      refused.copyTo(0, MemorySegment.ofArray(count));
      return count[0];
    }
  }

  /**
   * Pushes one command after the other into ring 0; the host answers each.
   *
   * @param pause time between a read of the host's clock and the push
   * @return {@link #WORDS} times of each round; zeros for rounds after an early end
   */
  public long[] rounds(Proxy proxy, int rounds, Duration pause, Duration timeout) {
    long shift = words.deviceAddress() - words.hostAddress();
    CommandRings rings = new CommandRings();
    try (DeviceMemory times = DeviceMemory.allocate(device, (long) rounds * WORDS * Long.BYTES);
        Launch launch =
            Launch.of(
                module.kernel("ep4j_proxy_rounds"),
                LaunchConfig.of(1, 32),
                rings.bytes(),
                8,
                8,
                8,
                8,
                8,
                8)) {
      times.fill8(0, times.bytes(), (byte) 0, stream);
      rings.placeIn(launch.parameter(0));
      proxy.describe(rings);
      launch.setLong(1, rounds);
      launch.setLong(2, clock() + shift);
      launch.setLong(3, answer() + shift);
      launch.setLong(4, times.address());
      launch.setLong(5, pause.toNanos());
      launch.setLong(6, timeout.toNanos());
      launch.launch(stream);
      stream.synchronize();
      long[] result = new long[rounds * WORDS];
      times.copyTo(0, MemorySegment.ofArray(result));
      return result;
    }
  }

  @Override
  public void close() {
    owned.close();
  }
}
