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
    this.parameters = parameters;
    Kernel kernel = module.kernel(KernelName.symbol(name, parameters.name()));
    kernel.setMaxDynamicSharedBytes(maxSharedBytes);
    LaunchConfig config = LaunchConfig.of(1, threads);
    launch = Launch.of(kernel, startsEarly ? config.asProgrammatic() : config, parameters.bytes());
    parameters.placeIn(launch.parameters());
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
