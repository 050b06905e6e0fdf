package org.ep4j.cuda.internode;

import java.lang.foreign.MemorySegment;
import java.time.Duration;
import org.ep4j.config.WireOptions;
import org.ep4j.cuda.backend.BackendWorld;
import org.ep4j.cuda.driver.CudaDevice;
import org.ep4j.cuda.driver.RegisteredMemory;
import org.ep4j.cuda.driver.ResourceStack;
import org.ep4j.cuda.internode.proxy.Proxy;
import org.ep4j.cuda.struct.CommandRings;
import org.ep4j.engine.Interrupts;
import org.ep4j.error.Ep4jException;
import org.ep4j.memory.PageArena;
import org.ep4j.wire.LaneLosses;
import org.ep4j.wire.Region;
import org.ep4j.wire.Wire;
import org.ep4j.wire.WireConfig;
import org.ep4j.wire.WireMemory;
import org.ep4j.wire.Wires;
import org.jspecify.annotations.Nullable;

/**
 * Transport of puts of kernels to ranks of other nodes without a library ({@code PUT_RINGS} of
 * {@code kernels/transport/device_put.cuh}): a wire, its memory as mapped for kernels, and the
 * proxy.
 */
public final class RingPuts implements AutoCloseable {
  private static final int PAGE = 4096;

  /** All resources except the proxy, whose threads use them. */
  private final ResourceStack owned = new ResourceStack();

  private final Wire wire;
  private final long incoming;
  private final long outgoing;
  private final long counters;
  private final int lanesPerRing;
  private final Proxy proxy;

  private RingPuts(
      BackendWorld world, InternodeWire settings, WireConfig config, long bytes, int lanes) {
    CudaDevice device = world.device();
    boolean complete = false;
    try {
      wire = owned.own(Wires.open(world.participants().group(), config));
      Region incomingRegion = wire.allocate(bytes, settings.timeout());
      incoming = register(device, incomingRegion.segment());
      counters = register(device, wire.counters().words());
      PageArena arena = owned.own(new PageArena());
      MemorySegment memory = arena.allocate(bytes, PAGE);
      Region source = wire.register(WireMemory.host(memory));
      outgoing = register(device, memory);
      lanesPerRing = settings.lanesPerThread(wire);
      proxy =
          Proxy.open(
              device,
              wire,
              source,
              incomingRegion,
              LaneLosses.of(wire),
              settings.proxy(config.affinity(), world.ranksOnDevice() == 1, lanes));
      complete = true;
    } finally {
      if (!complete) {
        owned.close();
      }
    }
  }

  /**
   * Connects all ranks; collective.
   *
   * @param world all ranks
   * @param wireName kind of wire between nodes
   * @param bytes bytes of each rank's memory
   */
  public static RingPuts open(
      BackendWorld world, String wireName, Duration timeout, long bytes, int lanes, int signals) {
    InternodeWire settings =
        world.together(
            "the settings of the proxy",
            () -> InternodeWire.of(wireName, WireOptions.DEFAULT, timeout, System.getenv()));
    WireConfig config =
        world.together(
            "the settings of the wire",
            () ->
                settings.config(
                    world.participants().group(), signals, world.device().properties().pciBusId()));
    return new RingPuts(world, settings, config, bytes, lanes);
  }

  private long register(CudaDevice device, MemorySegment memory) {
    return owned.own(RegisteredMemory.of(device, memory)).deviceAddress();
  }

  /** Name of the wire. */
  public String wire() {
    return wire.name();
  }

  /** Memory that the wire writes, as a device address. */
  public long incoming() {
    return incoming;
  }

  /** Memory that the wire reads, as a device address. */
  public long outgoing() {
    return outgoing;
  }

  /** Counters of this rank. */
  public long counters() {
    return counters;
  }

  /** Lanes of the wire that the commands of a ring may name. */
  public int lanesPerRing() {
    return lanesPerRing;
  }

  /** Writes the rings that kernels submit to. */
  public void describe(CommandRings rings) {
    proxy.describe(rings);
  }

  /** Why this rank no longer sends; null if it does. */
  public @Nullable String problem() {
    return proxy.problem();
  }

  /**
   * Ends the proxy and closes all resources; a second call does nothing. No kernel of this rank
   * uses the transport any more.
   *
   * @throws Ep4jException if a thread of the proxy does not end: its resources stay allocated
   */
  @Override
  public void close() {
    Interrupts.closeUninterruptibly(proxy::close);
    owned.close();
  }
}
