package org.ep4j.cuda.engine.launch;

import org.ep4j.cuda.driver.CudaModule;
import org.ep4j.cuda.driver.Kernel;
import org.ep4j.cuda.driver.Launch;
import org.ep4j.cuda.driver.LaunchConfig;
import org.ep4j.cuda.jit.KernelName;
import org.ep4j.cuda.struct.Struct;

/**
 * A kernel with its parameters, which are refilled for each launch. A launch copies the parameters,
 * so the next launch may be prepared immediately. Launches allocate nothing.
 *
 * @param <P> the structure that the kernel takes by value
 */
public final class KernelCall<P extends Struct> implements AutoCloseable {
  /** Keep their values from launch to launch. */
  public final P parameters;

  private final Launch launch;
  private final Kernel kernel;
  private final Kernel ofAnyShape;

  /** A kernel that serves all operations. */
  KernelCall(CudaModule module, String name, P parameters, int threads, int maxSharedBytes) {
    this(module, name, parameters, threads, maxSharedBytes, false);
  }

  /**
   * @param name of the kernel in namespace {@code ep4j}
   * @param startsEarly whether the kernel may start before the previous kernel of the stream has
   *     ended
   */
  public KernelCall(
      CudaModule module,
      String name,
      P parameters,
      int threads,
      int maxSharedBytes,
      boolean startsEarly) {
    this(module, module, name, parameters, threads, maxSharedBytes, startsEarly);
  }

  /**
   * @param module with the kernel that is launched unless {@link #choose} takes the other one
   * @param ofAnyShape with the same kernel for operations of another shape
   */
  public KernelCall(
      CudaModule module,
      CudaModule ofAnyShape,
      String name,
      P parameters,
      int threads,
      int maxSharedBytes,
      boolean startsEarly) {
    this.parameters = parameters;
    kernel = kernel(module, name, maxSharedBytes);
    this.ofAnyShape = module == ofAnyShape ? kernel : kernel(ofAnyShape, name, maxSharedBytes);
    LaunchConfig config = LaunchConfig.of(1, threads);
    launch = Launch.of(kernel, startsEarly ? config.asProgrammatic() : config, parameters.bytes());
    parameters.placeIn(launch.parameters());
  }

  private Kernel kernel(CudaModule module, String name, int maxSharedBytes) {
    Kernel found = module.kernel(KernelName.symbol(name, parameters.name()));
    found.setMaxDynamicSharedBytes(maxSharedBytes);
    return found;
  }

  /**
   * Chooses the kernel of further launches.
   *
   * @param ofBuffer whether the operation has the shape for which kernels of the buffer are
   *     compiled
   */
  public void choose(boolean ofBuffer) {
    launch.setKernel(ofBuffer ? kernel : ofAnyShape);
  }

  /** Launches on a raw stream; the device is current. */
  public void launch(int blocks, int sharedBytes, long stream) {
    launch.setGrid(blocks, 1, 1);
    launch.setDynamicSharedBytes(sharedBytes);
    launch.launch(stream);
  }

  @Override
  public void close() {
    launch.close();
  }
}
