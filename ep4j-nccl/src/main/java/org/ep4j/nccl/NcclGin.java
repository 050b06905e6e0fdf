package org.ep4j.nccl;

import java.lang.foreign.MemorySegment;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.List;
import org.ep4j.cuda.backend.BackendWorld;
import org.ep4j.cuda.backend.PutShape;
import org.ep4j.cuda.backend.PutTransport;
import org.ep4j.cuda.driver.CudaDevice;
import org.ep4j.cuda.driver.CudaModule;
import org.ep4j.cuda.driver.DeviceMemory;
import org.ep4j.cuda.driver.ResourceStack;
import org.ep4j.cuda.jit.DevicePart;
import org.ep4j.error.ConfigurationMismatchException;
import org.ep4j.error.ErrorCode;
import org.ep4j.error.InvalidArgumentException;
import org.ep4j.group.Group;

/**
 * Puts of kernels between nodes by NCCL's GIN: a device communicator with contexts as lanes. Ranks
 * of the same node use stores through the windows of the backend.
 */
final class NcclGin implements PutTransport {
  /** Environment variable with the number of contexts of a device communicator. */
  static final String CONTEXTS = "EP4J_NCCL_GIN_CONTEXTS";

  /** More lanes than this share contexts: each context has queue pairs to all ranks. */
  private static final int MAX_CONTEXTS = 32;

  private static final String NO_GIN = "GIN of NCCL";

  private final ResourceStack owned = new ResourceStack();
  private final List<DevicePart> parts;
  private final DeviceMemory comm;
  private final long window;
  private final long contexts;

  private NcclGin(NcclCommunicator communicator, CudaDevice device, Asked asked, int signals) {
    parts = asked.module.parts();
    window = asked.window;
    GinModule.Wanted wanted = asked.wanted;
    boolean complete = false;
    try {
      MemorySegment made =
          communicator.deviceCommunicator(wanted.requirements(), wanted.commBytes());
      owned.own(() -> communicator.freeDeviceCommunicator(made));
      comm = owned.own(DeviceMemory.allocate(device, wanted.commBytes()));
      comm.copyFrom(0, made);
      contexts = asked.module.begin(comm, signals);
      complete = true;
    } finally {
      if (!complete) {
        owned.close();
      }
    }
  }

  /**
   * Creates the device communicator; collective.
   *
   * @throws org.ep4j.error.Ep4jException if GIN is unavailable, with the remedy: on all ranks if
   *     one of them lacks a requirement
   */
  static NcclGin open(
      BackendWorld world, NcclCommunicator communicator, NcclRegion region, PutShape shape) {
    String set = setting();
    requireSame(world.participants().group(), world.timeout(), set);
    long contexts = contexts(set, shape.lanes());
    ResourceStack opened = new ResourceStack();
    try {
      // No rank waits for the others inside NCCL before all are ready.
      Asked asked =
          world.together(
              NO_GIN,
              () -> {
                long window = region.window();
                GinModule module = opened.own(GinModule.load(world.device()));
                return new Asked(window, module, module.wanted(contexts, shape.signals()));
              });
      return new NcclGin(communicator, world.device(), asked, shape.signals());
    } finally {
      opened.close();
    }
  }

  private static String setting() {
    return System.getenv().getOrDefault(CONTEXTS, "").strip();
  }

  /** Prerequisites of a rank before the NCCL call. */
  private record Asked(long window, GinModule module, GinModule.Wanted wanted) {}

  /** Ranks with different numbers of contexts would wait for each other in NCCL without a limit. */
  static void requireSame(Group group, Duration timeout, String set) {
    byte[][] all = group.allGather(set.getBytes(StandardCharsets.UTF_8), timeout);
    for (int r = 1; r < all.length; r++) {
      String first = new String(all[0], StandardCharsets.UTF_8);
      String other = new String(all[r], StandardCharsets.UTF_8);
      if (!other.equals(first)) {
        throw new ConfigurationMismatchException(
            ErrorCode.NCCL_CONTEXTS_DIFFER,
            "%s is '%s' on rank 0 and '%s' on rank %d: set the same value on all ranks, or unset it"
                .formatted(CONTEXTS, first, other, r));
      }
    }
  }

  /** Number of contexts to request. */
  static long contexts(String set, int lanes) {
    if (set.isEmpty()) {
      return Math.min(lanes, MAX_CONTEXTS);
    }
    if (!set.matches("[1-9][0-9]{0,2}")) {
      throw new InvalidArgumentException(
          ErrorCode.NCCL_SETTING, CONTEXTS, "'" + set + "'", "1..999", "unset it");
    }
    return Long.parseLong(set);
  }

  @Override
  public String text() {
    return "stores; to other nodes GIN of NCCL %s, %d contexts (NCCL_GIN_TYPE=%s)"
        .formatted(
            NcclBackendProvider.text(NcclLibrary.version()),
            contexts,
            System.getenv().getOrDefault("NCCL_GIN_TYPE", "as NCCL chooses"));
  }

  /** A program that sets the number of contexts lets lanes share them. */
  @Override
  public int maxLanes() {
    return setting().isEmpty() ? MAX_CONTEXTS : PutShape.MAX_LANES;
  }

  @Override
  public String moreLanes() {
    return "lower the number, or set " + CONTEXTS + " to the contexts that lanes shall share";
  }

  @Override
  public boolean movesAll() {
    return false;
  }

  @Override
  public List<DevicePart> parts() {
    return parts;
  }

  @Override
  public long library() {
    return comm.address();
  }

  @Override
  public long window() {
    return window;
  }

  @Override
  public void loaded(CudaModule module) {}

  @Override
  public void unloading(CudaModule module) {}

  @Override
  public void close() {
    owned.close();
  }
}
