package org.ep4j.cuda.jit;

import java.util.Map;

/**
 * A kernel that tests compile and {@code ep4j cache warm} prepares.
 *
 * @param name display name
 * @param entry file in this jar
 * @param defines values of macros
 * @param mayNotSpill whether spilled registers are a defect, because the kernel moves rows
 */
public record PrebuiltKernel(
    String name, String entry, Map<String, String> defines, boolean mayNotSpill) {
  /** The spec for an architecture. */
  public KernelSpec spec(String architecture) {
    return KernelSpec.of(entry, defines, architecture);
  }
}
