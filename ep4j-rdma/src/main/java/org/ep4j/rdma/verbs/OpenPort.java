package org.ep4j.rdma.verbs;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import org.ep4j.error.ErrorCode;
import org.ep4j.memory.ClosingSteps;
import org.ep4j.rdma.verbs.bindings.Verbs;
import org.ep4j.rdma.verbs.bindings.VerbsConstants;
import org.ep4j.rdma.verbs.bindings.VerbsException;
import org.ep4j.rdma.verbs.bindings.VerbsLayouts;
import org.ep4j.rdma.verbs.ports.RdmaPort;
import org.ep4j.rdma.verbs.ports.RdmaSettings;
import org.ep4j.wire.WireException;
import org.ep4j.wire.WireMemory;

/** A port in use. Owns its open device and a protection domain. */
final class OpenPort implements AutoCloseable {
  private static final long LID = VerbsLayouts.offset(VerbsLayouts.PORT, "lid");
  private static final long MTU = VerbsLayouts.offset(VerbsLayouts.PORT, "active_mtu");
  private static final long MAX_BYTES = VerbsLayouts.offset(VerbsLayouts.PORT, "max_msg_sz");
  private static final long LINK = VerbsLayouts.offset(VerbsLayouts.PORT, "link_layer");
  private static final long REQUESTS = VerbsLayouts.offset(VerbsLayouts.DEVICE, "max_qp_wr");
  private static final long ENTRIES = VerbsLayouts.offset(VerbsLayouts.DEVICE, "max_cqe");
  private static final long LOCAL_KEY = VerbsLayouts.offset(VerbsLayouts.MEMORY, "lkey");
  private static final long REMOTE_KEY = VerbsLayouts.offset(VerbsLayouts.MEMORY, "rkey");

  private final RdmaPort port;
  private final long context;
  private long domain;
  private final PortAddress address;
  private final int maxBytes;
  private final int maxRequests;
  private final int maxEntries;

  /** Functions of the driver of the device. */
  final MemorySegment pollFunction;

  final MemorySegment sendFunction;
  final MemorySegment receiveFunction;

  private OpenPort(RdmaPort port, RdmaSettings settings, long context) {
    this.port = port;
    this.context = context;
    MemorySegment functions = Verbs.memory(context, VerbsLayouts.CONTEXT.byteSize());
    pollFunction = function(functions, "ops.poll_cq");
    sendFunction = function(functions, "ops.post_send");
    receiveFunction = function(functions, "ops.post_recv");
    try (Arena arena = Arena.ofConfined()) {
      MemorySegment device = arena.allocate(VerbsLayouts.DEVICE);
      Verbs.queryDevice(context, device);
      maxRequests = device.get(ValueLayout.JAVA_INT, REQUESTS);
      maxEntries = device.get(ValueLayout.JAVA_INT, ENTRIES);
      MemorySegment attributes = arena.allocate(VerbsLayouts.PORT);
      Verbs.queryPort(context, port.number(), attributes);
      maxBytes = attributes.get(ValueLayout.JAVA_INT, MAX_BYTES);
      int gidIndex = settings.gidIndex() >= 0 ? settings.gidIndex() : port.usualAddress();
      MemorySegment gid = arena.allocate(PortAddress.GID_BYTES, Long.BYTES);
      Verbs.queryGid(context, port.number(), gidIndex, gid);
      address =
          new PortAddress(
              gid.get(ValueLayout.JAVA_LONG, 0),
              gid.get(ValueLayout.JAVA_LONG, Long.BYTES),
              gidIndex,
              attributes.get(ValueLayout.JAVA_SHORT, LID),
              attributes.get(ValueLayout.JAVA_INT, MTU),
              attributes.get(ValueLayout.JAVA_BYTE, LINK)
                  == VerbsConstants.IBV_LINK_LAYER_ETHERNET);
    }
    domain = Verbs.allocateDomain(context);
  }

  /** Opens the device of a port. */
  static OpenPort open(RdmaPort port, RdmaSettings settings) {
    long context = Verbs.open(port.device());
    if (context == 0) {
      throw new WireException(
          ErrorCode.RDMA_NO_PROVIDER,
          "the system lists the RDMA device "
              + port.device()
              + ", but libibverbs cannot open it: install its provider (ibverbs-providers,"
              + " rdma-core), and let this process open /dev/infiniband/uverbs*");
    }
    OpenPort open = null;
    try {
      open = new OpenPort(port, settings, context);
      return open;
    } finally {
      if (open == null) {
        Verbs.closeDevice(context);
      }
    }
  }

  private static MemorySegment function(MemorySegment functions, String name) {
    long offset = VerbsLayouts.offset(VerbsLayouts.CONTEXT, name);
    return MemorySegment.ofAddress(functions.get(ValueLayout.JAVA_LONG, offset));
  }

  String name() {
    return port.name();
  }

  int number() {
    return port.number();
  }

  PortAddress address() {
    return address;
  }

  /** Maximum size of one request in bytes. */
  int maxBytes() {
    return maxBytes < 0 ? Integer.MAX_VALUE : maxBytes;
  }

  long domain() {
    return domain;
  }

  /**
   * Checks the limits of the device.
   *
   * @param requests requests of one direction of a queue pair
   * @param entries entries of a completion queue
   */
  void require(int requests, long entries) {
    if (requests > maxRequests || entries > maxEntries) {
      throw new WireException(
          ErrorCode.RDMA_DEVICE_LIMIT,
          "port %s holds %d requests per queue pair and %d completions per queue, needed are %d and %d:"
                  .formatted(name(), maxRequests, maxEntries, requests, entries)
              + " lower EP4J_IB_QP_DEPTH or EP4J_IB_QPS_PER_PORT");
    }
  }

  long createCompletionQueue(int entries) {
    return Verbs.createCompletionQueue(context, entries);
  }

  /** Registers memory; an {@code ibv_mr}. */
  long register(WireMemory memory, boolean exposed) {
    int access =
        exposed
            ? VerbsConstants.IBV_ACCESS_LOCAL_WRITE | VerbsConstants.IBV_ACCESS_REMOTE_WRITE
            : 0;
    return memory.onHost()
        ? Verbs.register(domain, memory.address(), memory.bytes(), access)
        : registerOfDevice(memory, access);
  }

  /** Registers by dma-buf, else by address, which needs nvidia-peermem. */
  private long registerOfDevice(WireMemory memory, int access) {
    String noDmaBuf = "it has no dma-buf";
    if (memory.dmaBuf() != WireMemory.NO_DMA_BUF) {
      try {
        return Verbs.registerDmaBuf(
            domain, memory.address(), memory.bytes(), memory.dmaBuf(), access);
      } catch (VerbsException e) {
        noDmaBuf = String.valueOf(e.getMessage());
      }
    }
    try {
      return Verbs.register(domain, memory.address(), memory.bytes(), access);
    } catch (VerbsException e) {
      throw new WireException(
          ErrorCode.RDMA_DEVICE_MEMORY,
          "port %s cannot access memory of device %d (%s; %s): load the kernel module nvidia-peermem, or set %s=0 on all hosts"
              .formatted(name(), memory.device(), noDmaBuf, e.getMessage(), RdmaSettings.GPUDIRECT),
          e);
    }
  }

  static int localKey(long registration) {
    return key(registration, LOCAL_KEY);
  }

  static int remoteKey(long registration) {
    return key(registration, REMOTE_KEY);
  }

  private static int key(long registration, long offset) {
    return Verbs.memory(registration, VerbsLayouts.MEMORY.byteSize())
        .get(ValueLayout.JAVA_INT, offset);
  }

  @Override
  public void close() {
    if (domain != 0) {
      long last = domain;
      domain = 0;
      ClosingSteps.run(() -> Verbs.deallocateDomain(last), () -> Verbs.closeDevice(context));
    }
  }
}
