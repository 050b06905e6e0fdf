package org.ep4j.cuda.jit;

import java.util.Map;
import java.util.TreeMap;

/**
 * Compile-time constants of a kernel.
 *
 * @param variant constants of the protocol, equal on all cooperating ranks and always required
 * @param shape constants that make the kernel faster for one shape of buffers: a kernel without
 *     them reads the values from its parameters and cooperates with kernels that have them
 */
public record KernelConstants(Map<String, String> variant, Map<String, String> shape) {
  /** No constants: one kernel for all buffers. */
  public static final KernelConstants NONE = new KernelConstants(Map.of(), Map.of());

  /** Requires disjoint sets. */
  public KernelConstants {
    variant = Map.copyOf(variant);
    shape = Map.copyOf(shape);
  }

  /** Constants of the kernel for this shape. */
  Map<String, String> special() {
    Map<String, String> all = new TreeMap<>(shape);
    all.putAll(variant);
    return Map.copyOf(all);
  }

  /** Constants to compile with if a compiler is available. */
  Map<String, String> wanted() {
    return KernelCompiler.SPECIAL ? special() : general();
  }

  /** Whether kernels with these constants differ from those for any shape. */
  public boolean isSpecial() {
    return !wanted().equals(general());
  }

  /** The constants of the protocol alone. */
  public KernelConstants withoutShape() {
    return new KernelConstants(variant, Map.of());
  }

  /** Constants of the kernel for any shape. */
  public Map<String, String> general() {
    return variant;
  }
}
