package org.ep4j.cuda.backend;

import java.util.List;
import org.ep4j.cuda.driver.CudaModule;
import org.ep4j.cuda.jit.DevicePart;

/**
 * Device functions of a backend's library that carry puts of kernels, see {@code
 * kernels/transport/library.cuh}. Close it after the last kernel that uses it.
 */
public interface PutTransport extends AutoCloseable {
  /** Short description for display. */
  String text();

  /** Whether it carries puts to all ranks, including ranks that stores reach. */
  boolean movesAll();

  /**
   * Largest number of lanes that a program may ask for. A transport whose lanes share queues serves
   * any.
   */
  default int maxLanes() {
    return PutShape.MAX_LANES;
  }

  /** What to do to have more lanes than {@link #maxLanes}. */
  default String moreLanes() {
    return "lower the number, or leave it out";
  }

  /** Device code that kernels are linked to. */
  List<DevicePart> parts();

  /** Argument {@code library} of the functions. */
  long library();

  /** Argument {@code window} of the functions. */
  long window();

  /** Called with a module that contains these parts before one of its kernels runs. */
  void loaded(CudaModule module);

  /** Called before that module is closed. */
  void unloading(CudaModule module);

  @Override
  void close();
}
