package org.ep4j.cuda.engine.launch;

import org.ep4j.cuda.struct.Struct;

/**
 * Names of the kernels of operations. They are C++ functions in namespace {@code ep4j} with one
 * structure as their parameter, so profilers print {@code
 * ep4j::low_latency::dispatch_fp8(LowLatencyParameters)}. Programs find kernels in a profile by
 * such words: DeepEP's tests look for {@code ::dispatch} and {@code ::combine}, Hybrid-EP's for
 * {@code dispatch_kernel} and {@code combine_kernel}.
 */
public final class KernelName {
  private KernelName() {}

  /**
   * The symbol of a kernel, mangled by the Itanium C++ ABI, section 5.1.
   *
   * @param name its name in namespace {@code ep4j}: {@code low_latency::dispatch_fp8}
   * @param parameters what the kernel takes by value
   */
  public static String symbol(String name, Struct parameters) {
    StringBuilder symbol = new StringBuilder("_ZN4ep4j");
    for (String part : name.split("::", -1)) {
      symbol.append(part.length()).append(part);
    }
    String type = parameters.name();
    return symbol.append('E').append(type.length()).append(type).toString();
  }
}
