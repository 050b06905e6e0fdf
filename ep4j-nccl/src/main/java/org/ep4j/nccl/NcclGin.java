package org.ep4j.nccl;

import java.lang.foreign.MemorySegment;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.List;
import java.util.Map;
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
import org.ep4j.group.Group;
import org.ep4j.nccl.gin.GinCommunicators;
import org.ep4j.nccl.gin.GinPlan;
import org.ep4j.nccl.gin.GinTable;

/**
 * Puts of kernels between nodes by NCCL's GIN: contexts of one communicator or of several as lanes,
 * see {@link GinPlan}. Ranks of the same node use stores through the windows of the backend.
 */
final class NcclGin implements PutTransport {
  private static final String NO_GIN = "GIN of NCCL";

  private final ResourceStack owned = new ResourceStack();
  private final GinPlan plan;
  private final List<DevicePart> parts;
  private final DeviceMemory table;
  private final List<GinMember> members;

  private NcclGin(CudaDevice device, GinPlan plan, GinModule module, GinCommunicators opened) {
    this.plan = plan;
    parts = module.parts();
    owned.own(opened);
    boolean complete = false;
    try {
      members = opened.members().stream().map(GinMember.class::cast).toList();
      MemorySegment bytes =
          GinTable.of(
              members.getFirst().contexts(), members.stream().map(GinMember::entry).toList());
      table = owned.own(DeviceMemory.allocate(device, bytes.byteSize()));
      table.copyFrom(0, bytes);
      complete = true;
    } finally {
      if (!complete) {
        owned.close();
      }
    }
  }

  /**
   * Creates the communicators; collective.
   *
   * @throws org.ep4j.error.Ep4jException if GIN is unavailable, with the remedy: on all ranks if
   *     one of them lacks a requirement
   */
  static NcclGin open(
      BackendWorld world, NcclCommunicator communicator, NcclRegion region, PutShape shape) {
    Map<String, String> variables = System.getenv();
    for (String variable : List.of(GinPlan.CONTEXTS, GinPlan.COMMUNICATORS)) {
      String set = variables.getOrDefault(variable, "").strip();
      requireSame(world.participants().group(), world.timeout(), variable, set);
    }
    GinPlan plan = GinPlan.of(variables, shape.lanes());
    ResourceStack opened = new ResourceStack();
    try {
      // No rank waits for the others inside NCCL before all are ready.
      GinMember.Factory factory =
          world.together(
              NO_GIN,
              () -> {
                long ignored = region.window();
                GinModule module = opened.own(GinModule.load(world.device()));
                return new GinMember.Factory(
                    world,
                    communicator,
                    region,
                    module,
                    module.wanted(plan.inEach(), shape.signals()),
                    shape.signals());
              });
      GinCommunicators communicators =
          GinCommunicators.open(world.participants(), world.timeout(), plan, factory);
      return new NcclGin(world.device(), plan, factory.module(), communicators);
    } finally {
      opened.close();
    }
  }

  /** Ranks with different numbers would wait for each other in NCCL without a limit. */
  static void requireSame(Group group, Duration timeout, String variable, String set) {
    byte[][] all = group.allGather(set.getBytes(StandardCharsets.UTF_8), timeout);
    for (int r = 1; r < all.length; r++) {
      String first = new String(all[0], StandardCharsets.UTF_8);
      String other = new String(all[r], StandardCharsets.UTF_8);
      if (!other.equals(first)) {
        throw new ConfigurationMismatchException(
            ErrorCode.NCCL_CONTEXTS_DIFFER,
            "%s is '%s' on rank 0 and '%s' on rank %d: set the same value on all ranks, or unset it"
                .formatted(variable, first, other, r));
      }
    }
  }

  @Override
  public String text() {
    return "stores; to other nodes GIN of NCCL %s, %d contexts (NCCL_GIN_TYPE=%s)%s"
        .formatted(
            NcclBackendProvider.text(NcclLibrary.version()),
            members.stream().mapToLong(GinMember::contexts).sum(),
            System.getenv().getOrDefault("NCCL_GIN_TYPE", "as NCCL chooses"),
            members.size() == 1 ? "" : " in " + members.size() + " communicators");
  }

  /** A program that sets a number lets lanes share contexts. */
  @Override
  public int maxLanes() {
    return plan.open() ? GinPlan.MAX_CONTEXTS : PutShape.MAX_LANES;
  }

  @Override
  public String moreLanes() {
    return "lower the number, or set "
        + GinPlan.CONTEXTS
        + " to the contexts that lanes shall share";
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
    return table.address();
  }

  /** Kernels find the window of each communicator in the table. */
  @Override
  public long window() {
    return members.getFirst().entry().window();
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
