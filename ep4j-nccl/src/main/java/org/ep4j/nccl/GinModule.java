package org.ep4j.nccl;

import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.List;
import org.ep4j.cuda.driver.CudaDevice;
import org.ep4j.cuda.driver.CudaModule;
import org.ep4j.cuda.driver.CudaStream;
import org.ep4j.cuda.driver.DeviceMemory;
import org.ep4j.cuda.driver.Launch;
import org.ep4j.cuda.driver.LaunchConfig;
import org.ep4j.cuda.driver.ResourceStack;
import org.ep4j.cuda.jit.DevicePart;
import org.ep4j.cuda.jit.LinkedKernels;
import org.ep4j.error.ErrorCode;

/**
 * The shim of NCCL's GIN without other kernels, for the host: structures differ between versions,
 * so code compiled with the headers fills them.
 */
final class GinModule implements AutoCloseable {
  /** Larger than the requirements of any version. */
  private static final int ROOM = 1024;

  private static final int FACTS = 2;

  private final ResourceStack owned = new ResourceStack();
  private final List<DevicePart> parts;
  private final CudaModule module;
  private final CudaStream stream;

  private GinModule(CudaDevice device, List<DevicePart> parts) {
    this.parts = parts;
    boolean complete = false;
    try {
      module = owned.own(LinkedKernels.load(device, "GIN", parts));
      stream = owned.own(CudaStream.create(device));
      complete = true;
    } finally {
      if (!complete) {
        owned.close();
      }
    }
  }

  /**
   * Compiles the shim or reads it from a cache, and loads it.
   *
   * @throws org.ep4j.error.Ep4jException with the remedy if that is impossible here
   */
  static GinModule load(CudaDevice device) {
    int version = NcclLibrary.version();
    if (version < NcclShim.OLDEST || !NcclCalls.hasDeviceComms()) {
      throw new NcclException(
          ErrorCode.NCCL_GIN_UNAVAILABLE,
          "NCCL %s has no GIN: install %s or newer"
              .formatted(
                  NcclBackendProvider.text(version), NcclBackendProvider.text(NcclShim.OLDEST)));
    }
    if (!LinkedKernels.problem().isEmpty()) {
      throw new NcclException(
          ErrorCode.KERNEL_LINKER_MISSING,
          "kernels cannot be linked to GIN: " + LinkedKernels.problem());
    }
    return new GinModule(device, List.of(NcclShim.of().compile(device.architecture())));
  }

  /** Parts that kernels with puts by GIN are linked to. */
  List<DevicePart> parts() {
    return parts;
  }

  /**
   * Parameters for the creation of a device communicator, in the layout of this version of NCCL.
   *
   * @param requirements of ncclDevCommCreate
   * @param commBytes bytes of the resulting ncclDevComm
   */
  record Wanted(MemorySegment requirements, long commBytes) {}

  /** Fills in the requirements. */
  Wanted wanted(long contexts, int signals) {
    MemorySegment requirements = MemorySegment.ofArray(new long[ROOM / Long.BYTES]);
    long[] facts = new long[FACTS];
    try (DeviceMemory memory =
            DeviceMemory.allocate(module.device(), ROOM + FACTS * (long) Long.BYTES);
        Launch launch =
            Launch.of(
                module.kernel("ep4j_gin_requirements"), LaunchConfig.of(1, 1), 8, 8, 8, 8, 8)) {
      launch.setLong(0, memory.address());
      launch.setLong(1, ROOM);
      launch.setLong(2, contexts);
      launch.setLong(3, signals);
      launch.setLong(4, memory.address() + ROOM);
      launch.launch(stream);
      stream.synchronize();
      memory.copyTo(0, requirements);
      memory.copyTo(ROOM, MemorySegment.ofArray(facts));
    }
    if (facts[0] > ROOM) {
      throw new NcclException(
          ErrorCode.NCCL_GIN_UNAVAILABLE, "requirements of NCCL's GIN have " + facts[0] + " bytes");
    }
    return new Wanted(requirements.asSlice(0, facts[0]), facts[1]);
  }

  /** Zeroes the signals of an ncclDevComm in device memory; returns the number of its contexts. */
  long begin(DeviceMemory comm, int signals) {
    MemorySegment count = MemorySegment.ofArray(new long[1]);
    try (DeviceMemory out = DeviceMemory.allocate(module.device(), Long.BYTES);
        Launch launch =
            Launch.of(module.kernel("ep4j_gin_begin"), LaunchConfig.of(1, 1), 8, 8, 8)) {
      launch.setLong(0, comm.address());
      launch.setLong(1, signals);
      launch.setLong(2, out.address());
      launch.launch(stream);
      stream.synchronize();
      out.copyTo(0, count);
    }
    return count.get(ValueLayout.JAVA_LONG, 0);
  }

  @Override
  public void close() {
    owned.close();
  }
}
