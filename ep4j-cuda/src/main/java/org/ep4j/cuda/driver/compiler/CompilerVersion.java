package org.ep4j.cuda.driver.compiler;

/**
 * Version of a CUDA compiler or linker.
 *
 * @param major of CUDA
 * @param minor of CUDA
 */
public record CompilerVersion(int major, int minor) {
  @Override
  public String toString() {
    return major + "." + minor;
  }
}
