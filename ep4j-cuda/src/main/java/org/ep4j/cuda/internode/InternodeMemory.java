package org.ep4j.cuda.internode;

import java.util.Map;
import java.util.Set;
import org.ep4j.config.BufferConfig;
import org.ep4j.config.WireName;
import org.ep4j.cuda.backend.PutShape;
import org.ep4j.cuda.internode.proxy.Proxy;
import org.ep4j.cuda.internode.proxy.ProxyConfig;
import org.ep4j.engine.world.Nodes;
import org.ep4j.engine.world.RailBounds;
import org.ep4j.error.ErrorCode;
import org.ep4j.error.InvalidArgumentException;

/**
 * Bytes that a rank's connection with other nodes allocates; the same arithmetic as {@link
 * InternodeConnection}, which opens it.
 *
 * @param incomingBytes memory that ranks of other nodes write
 * @param outgoingBytes memory that the transport reads, if it is not among the incoming
 * @param onDevice whether both are memory of the GPU
 * @param puts whether the transport copies what kernels write locally; otherwise kernels write to
 *     the destination
 * @param counterBytes words on the host that transports add to; 0 if they are among the incoming
 * @param tableBytes tables on the device
 * @param proxyBytes page-locked memory in which kernels and the proxy meet
 * @param proxyDeviceBytes memory of the proxy's rings on the device
 */
public record InternodeMemory(
    long incomingBytes,
    long outgoingBytes,
    boolean onDevice,
    boolean puts,
    long counterBytes,
    long tableBytes,
    long proxyBytes,
    long proxyDeviceBytes) {
  /** Wires whose memory kernels of other ranks map. */
  private static final Set<String> MAPPED = Set.of(WireName.STAGED, WireName.SHM, WireName.INPROC);

  /** Whole pages are locked. */
  private static final long PAGE = 4096;

  /** Unit in which the driver gives memory that network cards can write. */
  private static final long DRIVER_UNIT = 2L << 20;

  /** Whether kernels write the memory of ranks of other nodes over a wire of this name. */
  public static boolean isMapped(String wire) {
    return MAPPED.contains(wire);
  }

  /** Refuses more counters than commands to the proxy can name; the same on all ranks. */
  static void requireCounters(int counters) {
    if (counters > Proxy.MAX_COUNTERS) {
      throw new InvalidArgumentException(
          ErrorCode.PUT_SHAPE,
          "counters of a rank for the ranks of other nodes",
          String.valueOf(counters),
          "at most " + Proxy.MAX_COUNTERS,
          "use fewer nodes or ranks");
    }
  }

  /**
   * Refuses memory that is too large for puts of the proxy: an offset in it, or the length of a
   * put, does not fit into a command.
   *
   * @param largest sizes of a rank with the largest number of partners, so that all ranks refuse
   * @param onDevice whether outgoing memory follows incoming memory in one region
   */
  static void requireAddressable(InternodeMemorySizes largest, boolean onDevice) {
    long bytes =
        onDevice
            ? largest.incomingBytes() + largest.outgoingBytes()
            : Math.max(largest.incomingBytes(), largest.outgoingBytes());
    if (bytes > PutShape.MAX_BYTES) {
      throw new InvalidArgumentException(
          ErrorCode.PUT_SHAPE,
          "bytes that a rank exchanges with other nodes",
          String.valueOf(bytes),
          "at most " + PutShape.MAX_BYTES,
          "lower lowLatency.maxTokens, or dispatch large batches with the high-throughput"
              + " operations");
    }
    if (largest.putBytes() > Proxy.MAX_PUT) {
      throw new InvalidArgumentException(
          ErrorCode.PUT_SHAPE,
          "bytes of a put to another node",
          String.valueOf(largest.putBytes()),
          "at most " + Proxy.MAX_PUT,
          "lower lowLatency.maxTokens or topK, or use shorter rows");
    }
  }

  /**
   * The memory of a rank. A wire that is still open is counted as one that kernels cannot map, and
   * GPUDirect as off: the configuration of an open buffer has what the ranks chose.
   *
   * @param variables variables of the proxy
   */
  public static InternodeMemory of(
      BufferConfig config,
      Nodes nodes,
      int rank,
      InternodeSizes sizes,
      Map<String, String> variables) {
    RailBounds room = RailRoom.bounds(config, nodes);
    int partners = room.partners(rank);
    long table = new InternodeTableLayout(nodes, partners).bytes;
    String wire = WireChoice.of(config.backend(), config.wire());
    InternodeLayout layout = new InternodeLayout(nodes.ranks(), sizes);
    int max = room.maxPartners();
    if (wire.equals(WireName.BACKEND)) {
      InternodeMemorySizes equal = layout.sizes(max, max);
      return new InternodeMemory(
          LibraryLink.regionBytes(equal), 0, true, true, 0, table + LibraryQuiesce.BYTES, 0, 0);
    }
    InternodeMemorySizes own = layout.sizes(partners, max);
    requireCounters(own.counters());
    boolean onDevice =
        wire.equals(WireName.VERBS) && config.wireOptions().gpuDirect().orElse(false);
    boolean puts = !isMapped(wire);
    if (puts && !wire.equals(WireName.AUTO)) {
      requireAddressable(layout.sizes(max, max), onDevice);
    }
    long outgoing = puts ? own.outgoingBytes() : 0;
    long both = own.incomingBytes() + outgoing;
    long rounding = onDevice ? Math.ceilDiv(both, DRIVER_UNIT) * DRIVER_UNIT - both : 0;
    ProxyConfig proxy = InternodeWire.of(config, variables).proxy(0);
    return new InternodeMemory(
        own.incomingBytes() + rounding,
        outgoing,
        onDevice,
        puts,
        Math.ceilDiv((long) own.counters() * Long.BYTES, PAGE) * PAGE,
        table,
        Proxy.hostBytes(nodes.ranks(), proxy),
        Proxy.deviceBytes(proxy));
  }
}
