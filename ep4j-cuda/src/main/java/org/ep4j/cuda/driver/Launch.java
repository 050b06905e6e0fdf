package org.ep4j.cuda.driver;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.Arrays;
import java.util.List;
import org.ep4j.cuda.driver.calls.DriverConstants;
import org.ep4j.cuda.driver.calls.DriverLayouts;
import org.ep4j.cuda.driver.calls.ModuleCalls;
import org.ep4j.error.ErrorCode;
import org.ep4j.error.IllegalUseException;
import org.ep4j.error.InvalidArgumentException;

/**
 * A launch that is described once and made many times. This object owns the native memory of
 * parameters, attributes and configuration; setting parameters and launching allocate nothing. One
 * thread at a time; the driver has read all of it when {@link #launch} returns.
 */
public final class Launch implements AutoCloseable {
  private static final int MAX_ATTRIBUTES = 3;

  /** Strictest alignment of a kernel parameter (a tensor map). */
  private static final int PARAMETER_ALIGNMENT = 64;

  private static final long GRID_X = DriverLayouts.offset(DriverLayouts.LAUNCH_CONFIG, "gridDimX");
  private static final long BLOCK_X =
      DriverLayouts.offset(DriverLayouts.LAUNCH_CONFIG, "blockDimX");
  private static final long SHARED =
      DriverLayouts.offset(DriverLayouts.LAUNCH_CONFIG, "sharedMemBytes");
  private static final long STREAM = DriverLayouts.offset(DriverLayouts.LAUNCH_CONFIG, "hStream");
  private static final long ATTRIBUTES = DriverLayouts.offset(DriverLayouts.LAUNCH_CONFIG, "attrs");
  private static final long ATTRIBUTE_COUNT =
      DriverLayouts.offset(DriverLayouts.LAUNCH_CONFIG, "numAttrs");
  private static final long VALUE = DriverLayouts.offset(DriverLayouts.LAUNCH_ATTRIBUTE, "value");

  private Kernel kernel;
  private final Arena arena;
  private final MemorySegment config;
  private final MemorySegment attributes;
  private final MemorySegment[] parameters;
  private final long pointers;
  private boolean closed;

  private Launch(Kernel kernel, LaunchConfig description, int[] parameterBytes) {
    this.kernel = kernel;
    this.arena = Arena.ofShared();
    this.config = arena.allocate(DriverLayouts.LAUNCH_CONFIG);
    this.attributes = arena.allocate(DriverLayouts.LAUNCH_ATTRIBUTE, MAX_ATTRIBUTES);
    this.parameters = new MemorySegment[parameterBytes.length];
    MemorySegment table = arena.allocate(ValueLayout.JAVA_LONG, Math.max(1, parameterBytes.length));
    for (int i = 0; i < parameterBytes.length; i++) {
      parameters[i] = arena.allocate(parameterBytes[i], PARAMETER_ALIGNMENT);
      table.setAtIndex(ValueLayout.JAVA_LONG, i, parameters[i].address());
    }
    this.pointers = table.address();
    describe(description);
  }

  /**
   * A launch of {@code kernel}.
   *
   * @param parameterBytes size of each parameter in order; compared with the sizes that the driver
   *     reports (CUDA 12.4)
   */
  public static Launch of(Kernel kernel, LaunchConfig config, int... parameterBytes) {
    List<Integer> compiled = kernel.parameterBytes();
    List<Integer> given = Arrays.stream(parameterBytes).boxed().toList();
    if (!compiled.isEmpty() && !compiled.equals(given)) {
      throw new InvalidArgumentException(
          ErrorCode.CUDA_KERNEL_PARAMETERS,
          "parameters of " + kernel.name(),
          given + " bytes",
          compiled + " bytes as in the kernel",
          "make the host's layout the same as the kernel's");
    }
    return new Launch(kernel, config, parameterBytes.clone());
  }

  private void describe(LaunchConfig description) {
    config.set(ValueLayout.JAVA_INT, BLOCK_X, description.blockX());
    config.set(ValueLayout.JAVA_INT, BLOCK_X + 4, description.blockY());
    config.set(ValueLayout.JAVA_INT, BLOCK_X + 8, description.blockZ());
    setGrid(description.gridX(), description.gridY(), description.gridZ());
    setDynamicSharedBytes(description.dynamicSharedBytes());
    int count = 0;
    if (description.cooperative()) {
      attribute(count++, DriverConstants.CU_LAUNCH_ATTRIBUTE_COOPERATIVE, 1, 0, 0);
    }
    if (description.clusterBlocks() > 0) {
      attribute(
          count++,
          DriverConstants.CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION,
          description.clusterBlocks(),
          1,
          1);
    }
    if (description.programmatic()) {
      attribute(
          count++, DriverConstants.CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION, 1, 0, 0);
    }
    config.set(ValueLayout.JAVA_LONG, ATTRIBUTES, count == 0 ? 0 : attributes.address());
    config.set(ValueLayout.JAVA_INT, ATTRIBUTE_COUNT, count);
  }

  private void attribute(int index, int id, int first, int second, int third) {
    long at = index * DriverLayouts.LAUNCH_ATTRIBUTE.byteSize();
    attributes.set(ValueLayout.JAVA_INT, at, id);
    attributes.set(ValueLayout.JAVA_INT, at + VALUE, first);
    attributes.set(ValueLayout.JAVA_INT, at + VALUE + 4, second);
    attributes.set(ValueLayout.JAVA_INT, at + VALUE + 8, third);
  }

  /** The kernel to launch. */
  public Kernel kernel() {
    return kernel;
  }

  /** Changes the kernel to one that is another compilation of the same source. */
  public void setKernel(Kernel other) {
    kernel = other;
  }

  /** Memory of a parameter, initially zero; written in place. */
  public MemorySegment parameter(int index) {
    return parameters[index];
  }

  /** Memory of the first parameter, for kernels with one structure as parameter. */
  public MemorySegment parameters() {
    return parameters[0];
  }

  /** Sets an 8-byte parameter: an integer or a device address. */
  public void setLong(int index, long value) {
    parameters[index].set(ValueLayout.JAVA_LONG, 0, value);
  }

  /** Sets a 4-byte integer parameter. */
  public void setInt(int index, int value) {
    parameters[index].set(ValueLayout.JAVA_INT, 0, value);
  }

  /** Sets a float parameter. */
  public void setFloat(int index, float value) {
    parameters[index].set(ValueLayout.JAVA_FLOAT, 0, value);
  }

  /** Changes the number of blocks. */
  public void setGrid(int x, int y, int z) {
    config.set(ValueLayout.JAVA_INT, GRID_X, x);
    config.set(ValueLayout.JAVA_INT, GRID_X + 4, y);
    config.set(ValueLayout.JAVA_INT, GRID_X + 8, z);
  }

  /** Changes the dynamic shared memory. */
  public void setDynamicSharedBytes(int bytes) {
    config.set(ValueLayout.JAVA_INT, SHARED, bytes);
  }

  /** Launches in stream order; the stream's device is current for this thread. */
  public void launch(CudaStream stream) {
    launch(stream.handle());
  }

  /** Same as {@link #launch(CudaStream)} on a raw CUstream. */
  public void launch(long stream) {
    checkOpen();
    config.set(ValueLayout.JAVA_LONG, STREAM, stream);
    ModuleCalls.launch(config.address(), kernel.handle(), pointers, 0);
  }

  /** Clusters of this launch that the device runs at once. */
  public int maxActiveClusters() {
    checkOpen();
    try (var _ = kernel.module().device().enter()) {
      return ModuleCalls.maxActiveClusters(kernel.handle(), config.address());
    }
  }

  private void checkOpen() {
    if (closed) {
      throw new IllegalUseException(
          ErrorCode.CUDA_CLOSED, "the launch of " + kernel.name() + " is closed: create a new one");
    }
  }

  /** Frees the description. */
  @Override
  public synchronized void close() {
    if (!closed) {
      closed = true;
      arena.close();
    }
  }
}
