package org.ep4j.nccl;

import java.lang.foreign.MemorySegment;
import org.ep4j.cuda.backend.BackendWorld;
import org.ep4j.cuda.driver.DeviceMemory;
import org.ep4j.cuda.driver.ResourceStack;
import org.ep4j.error.ErrorCode;
import org.ep4j.memory.ClosingSteps;
import org.ep4j.nccl.gin.GinCommunicators;
import org.ep4j.nccl.gin.GinTable;

/** A communicator of NCCL whose contexts kernels put by, on this rank. */
final class GinMember implements GinCommunicators.Member {
  private final BackendWorld world;
  private final NcclCommunicator communicator;
  private final boolean owns;
  private final NcclRegion region;
  private final GinModule module;
  private final GinModule.Wanted wanted;
  private final int signals;
  private final ResourceStack owned = new ResourceStack();
  private long window;
  private long registered;
  private long contexts;
  private long device;

  private GinMember(Factory made, NcclCommunicator communicator, boolean owns) {
    world = made.world;
    this.communicator = communicator;
    this.owns = owns;
    region = made.region;
    module = made.module;
    wanted = made.wanted;
    signals = made.signals;
  }

  /**
   * Creates the members of a rank.
   *
   * @param communicator communicator of the backend, with the window of the region
   * @param wanted the device communicator of each member
   */
  record Factory(
      BackendWorld world,
      NcclCommunicator communicator,
      NcclRegion region,
      GinModule module,
      GinModule.Wanted wanted,
      int signals)
      implements GinCommunicators.Factory {
    @Override
    public GinMember first() {
      GinMember first = new GinMember(this, communicator, false);
      first.window = region.window();
      return first;
    }

    @Override
    public byte[] newId() {
      return new NcclBackendProvider().uniqueId();
    }

    @Override
    public GinMember create(byte[] id) {
      return new GinMember(this, NcclCommunicator.open(world, id), true);
    }
  }

  @Override
  public void register() {
    registered = communicator.register(region.memory().address(), region.memory().bytes());
    window = NcclRegion.requireUsable(registered);
  }

  @Override
  public void connect() {
    MemorySegment made = communicator.deviceCommunicator(wanted.requirements(), wanted.commBytes());
    owned.own(() -> communicator.freeDeviceCommunicator(made));
    DeviceMemory copy = owned.own(DeviceMemory.allocate(world.device(), wanted.commBytes()));
    copy.copyFrom(0, made);
    contexts = module.begin(copy, signals);
    if (contexts < 1) {
      throw new NcclException(
          ErrorCode.NCCL_GIN_UNAVAILABLE, "GIN of NCCL has given no contexts to a communicator");
    }
    device = copy.address();
  }

  @Override
  public long contexts() {
    return contexts;
  }

  /** What kernels need of it. */
  GinTable.Entry entry() {
    return new GinTable.Entry(device, window);
  }

  @Override
  public void release() {
    ClosingSteps.run(
        owned::close,
        () -> {
          if (registered != 0) {
            int ignored = NcclCalls.deregister(communicator.handle(), registered);
            registered = 0;
          }
        });
  }

  @Override
  public void abandon() {
    if (owns) {
      communicator.abandon();
    }
  }

  @Override
  public void beginClose() {
    if (owns) {
      communicator.beginClose();
    }
  }

  @Override
  public void endClose() {
    if (owns) {
      communicator.endClose();
    }
  }
}
