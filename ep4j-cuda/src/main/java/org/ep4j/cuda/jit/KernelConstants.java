package org.ep4j.cuda.jit;

import java.util.Map;
import java.util.TreeMap;

/**
 * What a kernel may be told when it is compiled.
 *
 * @param way how it works: the same on all ranks that work together, so it is never loaded without
 * @param shape what makes it faster for one shape of buffers: without, it reads the same from its
 *     parameters, and works together with kernels that know it
 */
public record KernelConstants(Map<String, String> way, Map<String, String> shape) {
  /** Nothing: there is only one such kernel. */
  public static final KernelConstants NONE = new KernelConstants(Map.of(), Map.of());

  /** Constants of which none is in both. */
  public KernelConstants {
    way = Map.copyOf(way);
    shape = Map.copyOf(shape);
  }

  /** Of the kernel for this shape. */
  Map<String, String> special() {
    Map<String, String> all = new TreeMap<>(shape);
    all.putAll(way);
    return Map.copyOf(all);
  }

  /** What to compile with where everything can be compiled. */
  Map<String, String> wanted() {
    return KernelCompiler.SPECIAL ? special() : general();
  }

  /** Of the kernel for any shape. */
  public Map<String, String> general() {
    return way;
  }
}
