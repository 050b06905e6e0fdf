package org.ep4j.cuda.backend;

import java.util.List;
import org.ep4j.cuda.driver.CudaModule;
import org.ep4j.cuda.jit.DevicePart;

/**
 * Device functions of a backend's library that carry what kernels put, see {@code
 * kernels/library.cuh}. Closed once no kernel uses them any more.
 */
public interface PutTransport extends AutoCloseable {
  /** In a few words, for people. */
  String text();

  /** Whether it carries to all ranks, those whose memory stores reach among them. */
  boolean movesAll();

  /** What kernels are linked to. */
  List<DevicePart> parts();

  /** What the functions are given as {@code library}. */
  long library();

  /** What they are given as {@code window}. */
  long window();

  /** Called with a module that has these parts, before a kernel of it runs. */
  void loaded(CudaModule module);

  /** Called before that module is closed. */
  void unloading(CudaModule module);

  @Override
  void close();
}
