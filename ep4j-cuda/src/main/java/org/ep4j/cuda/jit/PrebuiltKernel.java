package org.ep4j.cuda.jit;

import java.util.Map;

/**
 * A kernel that tests compile and {@code ep4j cache warm} prepares.
 *
 * @param name for people
 * @param entry file in this jar
 * @param defines values of its macros
 * @param mayNotSpill whether registers in memory would be a defect: it moves rows
 */
public record PrebuiltKernel(
    String name, String entry, Map<String, String> defines, boolean mayNotSpill) {
  /** What to compile for an architecture. */
  public KernelSpec spec(String architecture) {
    return KernelSpec.of(entry, defines, architecture);
  }
}
