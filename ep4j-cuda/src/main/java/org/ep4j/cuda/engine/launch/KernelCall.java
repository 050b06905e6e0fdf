package org.ep4j.cuda.engine.launch;

import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import org.ep4j.cuda.driver.Kernel;
import org.ep4j.cuda.driver.Launch;
import org.ep4j.cuda.driver.LaunchConfig;

/**
 * A kernel with its parameters, which are refilled for each launch. A launch copies the parameters,
 * so the next launch may be prepared immediately. Launches allocate nothing.
 *
 * @param <F> the parameters in order, 8 bytes each
 */
public final class KernelCall<F extends Enum<F>> implements AutoCloseable {
  private final Launch launch;
  private final MemorySegment parameters;

  KernelCall(Kernel kernel, Class<F> fields, int threads, int maxSharedBytes) {
    this(kernel, fields, threads, maxSharedBytes, false);
  }

  /**
   * @param startsEarly whether the kernel may start before the previous kernel of the stream has
   *     ended
   */
  public KernelCall(
      Kernel kernel, Class<F> fields, int threads, int maxSharedBytes, boolean startsEarly) {
    kernel.setMaxDynamicSharedBytes(maxSharedBytes);
    LaunchConfig config = LaunchConfig.of(1, threads);
    launch =
        Launch.of(
            kernel,
            startsEarly ? config.asProgrammatic() : config,
            fields.getEnumConstants().length * Long.BYTES);
    parameters = launch.parameters();
  }

  public void set(F field, long value) {
    parameters.set(ValueLayout.JAVA_LONG, (long) field.ordinal() * Long.BYTES, value);
  }

  public void set(F field, boolean value) {
    set(field, value ? 1 : 0);
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
