package org.ep4j.cuda.jit;

/**
 * Names of the kernels of operations. They are C++ functions in namespace {@code ep4j} with one
 * structure as their parameter, so profilers print {@code
 * ep4j::low_latency::dispatch_fp8(LowLatencyParameters)}. Programs find kernels in a profile by
 * such words: DeepEP's tests look for {@code ::dispatch} and {@code ::combine}, Hybrid-EP's for
 * {@code dispatch_kernel} and {@code combine_kernel}.
 *
 * <p>Source: Itanium C++ ABI, section 5.1, names and their parts.
 */
public final class KernelName {
  private static final String NESTED = "_ZN";

  private KernelName() {}

  /**
   * The symbol of a kernel.
   *
   * @param name its name in namespace {@code ep4j}: {@code low_latency::dispatch_fp8}
   * @param parameters name of the structure that the kernel takes by value
   */
  public static String symbol(String name, String parameters) {
    StringBuilder symbol = new StringBuilder(NESTED);
    for (String part : ("ep4j::" + name).split("::", -1)) {
      symbol.append(part.length()).append(part);
    }
    return symbol.append('E').append(parameters.length()).append(parameters).toString();
  }

  /** The name of a function in namespaces, without its parameters; other symbols as they are. */
  static String readable(String symbol) {
    if (!symbol.startsWith(NESTED)) {
      return symbol;
    }
    StringBuilder name = new StringBuilder();
    int at = NESTED.length();
    while (at < symbol.length() && symbol.charAt(at) != 'E') {
      int start = at;
      while (at < symbol.length() && Character.isDigit(symbol.charAt(at))) {
        at++;
      }
      int length = start == at ? 0 : Integer.parseInt(symbol, start, at, 10);
      if (length == 0 || at + length > symbol.length()) {
        return symbol;
      }
      name.append(name.isEmpty() ? "" : "::").append(symbol, at, at + length);
      at += length;
    }
    return name.toString();
  }
}
