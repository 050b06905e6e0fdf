package org.ep4j.nccl;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.time.Duration;
import org.ep4j.cuda.backend.BackendWorld;
import org.ep4j.cuda.backend.PeerCheck;
import org.ep4j.cuda.backend.PeerRegion;
import org.ep4j.cuda.backend.SymmetricRegion;
import org.ep4j.cuda.driver.DeviceCopies;
import org.ep4j.cuda.driver.DeviceMemory;
import org.ep4j.cuda.driver.PointerAttributes;
import org.ep4j.error.Ep4jException;
import org.ep4j.error.ErrorCode;
import org.ep4j.error.IllegalUseException;
import org.ep4j.memory.ClosingSteps;
import org.ep4j.memory.Participants;
import org.jspecify.annotations.Nullable;

/** Memory that NCCL allocated, registered as a symmetric window when peers map it. */
final class NcclRegion implements SymmetricRegion {
  private static final String NO_WINDOW =
      "NCCL has no symmetric window for this memory: use GPUs with NVLink or PCIe peer access to"
          + " each other (nvidia-smi topo -p2p r), and unset NCCL_CUMEM_ENABLE and NCCL_WIN_ENABLE,"
          + " or use the backend 'direct'";

  private final BackendWorld world;
  private final NcclCommunicator communicator;
  private final DeviceMemory memory;
  private long window;
  private boolean closed;

  NcclRegion(BackendWorld world, NcclCommunicator communicator, long address, long bytes) {
    this.world = world;
    this.communicator = communicator;
    memory = DeviceMemory.view(world.device(), address, bytes);
  }

  /**
   * The ncclWindow_t for kernels, after it is registered.
   *
   * @throws NcclException if there is none, or kernels cannot read NCCL's handle: without mapped
   *     peers the handle has not been checked before
   */
  long window() {
    return requireUsable(window);
  }

  /** Returns an ncclWindow_t that kernels can read. */
  static long requireUsable(long window) {
    if (window == 0 || !PointerAttributes.of(window).isDevicePointer()) {
      throw new NcclException(
          ErrorCode.NCCL_WINDOW_UNAVAILABLE,
          "kernels cannot use the window of NCCL for this memory: its handle is 0x"
              + Long.toHexString(window));
    }
    return window;
  }

  @Override
  public DeviceMemory memory() {
    return memory;
  }

  @Override
  public @Nullable PeerRegion[] reach(
      Participants participants, boolean[] wanted, Duration timeout) {
    if (window != 0) {
      throw new IllegalUseException(
          ErrorCode.NCCL_WINDOW_MAPPED,
          "the window is registered already, and its ranks are fixed: map it once");
    }
    @Nullable PeerRegion[] peers = new PeerRegion[wanted.length];
    String problem = "";
    try {
      window = communicator.register(memory.address(), memory.bytes());
      for (int r = 0; r < wanted.length; r++) {
        peers[r] = wanted[r] ? new Address(address(r)) : null;
      }
    } catch (Ep4jException e) {
      problem = String.valueOf(e.getMessage());
    }
    world.agree(problem);
    PeerCheck.check(world, memory, peers);
    return peers;
  }

  private long address(int rank) {
    if (window == 0) {
      throw new NcclException(ErrorCode.NCCL_WINDOW_UNAVAILABLE, NO_WINDOW);
    }
    return NcclCalls.hasPeerPointer() ? told(rank) : fields().address(rank);
  }

  private long told(int rank) {
    try (Arena arena = Arena.ofConfined()) {
      MemorySegment out = arena.allocate(ValueLayout.JAVA_LONG);
      NcclException.check(
          NcclCalls.peerPointer(window, 0, rank, out.address()),
          NcclFunction.PEER_POINTER,
          communicator.handle());
      long address = out.get(ValueLayout.JAVA_LONG, 0);
      if (address == 0) {
        throw new NcclException(
            ErrorCode.NCCL_WINDOW_UNAVAILABLE, "NCCL has no address of the memory of rank " + rank);
      }
      return address;
    }
  }

  /** For 2.28, which has the addresses on the device only. */
  private WindowFields fields() {
    PointerAttributes where = PointerAttributes.of(window);
    if (!where.isDevicePointer() || where.device() != world.device().ordinal()) {
      // Another kind of handle: the memory is registered, but not as a symmetric window.
      String handle = "its handle 0x" + Long.toHexString(window) + " is no window: " + where;
      window = 0;
      throw new NcclException(ErrorCode.NCCL_WINDOW_UNAVAILABLE, NO_WINDOW + "; " + handle);
    }
    MemorySegment fields = MemorySegment.ofArray(new long[(int) NcclLayouts.WINDOW.byteSize() / 8]);
    DeviceCopies.toHost(world.device(), fields, window);
    WindowFields read = WindowFields.of(fields);
    read.check(world.participants().rank());
    return read;
  }

  /** Owns nothing: the window is closed with the region. */
  private record Address(long address) implements PeerRegion {
    @Override
    public void close() {}
  }

  @Override
  public void close() {
    if (closed) {
      return;
    }
    closed = true;
    world.device().makeCurrent();
    if (window != 0) {
      int ignored = NcclCalls.deregister(communicator.handle(), window);
    }
    ClosingSteps.run(
        () ->
            NcclException.check(
                NcclCalls.free(memory.address()), NcclFunction.MEM_FREE, communicator.handle()),
        memory::close);
  }
}
