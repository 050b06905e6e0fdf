package org.ep4j.engine.host.kernel;

import org.jspecify.annotations.Nullable;

/**
 * Chooses the kernels once, when this class is initialised. The vector kernels are constants of
 * their classes (C2 needs the species to be constants), so a process has one vector width.
 */
final class KernelChoice {
  static final String PROPERTY = "ep4j.host.vectorBits";

  /** Vector width not forced: as wide as the processor likes. */
  static final int AUTO = -1;

  private static final String MODULE = "jdk.incubator.vector";
  private static final String FLAG = "--add-modules " + MODULE;

  /** Vector bits to use, or {@link #AUTO}. */
  static final int BITS;

  private static final @Nullable RowKernels KERNELS;
  private static final @Nullable IllegalArgumentException REFUSED;

  static {
    int bits = 0;
    IllegalArgumentException refused = null;
    boolean modulePresent = ModuleLayer.boot().findModule(MODULE).isPresent();
    String value = System.getProperty(PROPERTY);
    try {
      bits = bits(value, modulePresent);
    } catch (IllegalArgumentException e) {
      refused = e;
    }
    BITS = bits;
    REFUSED = refused;
    KERNELS = refused != null ? null : bits == 0 ? new PlainKernels() : new VectorKernels();
    if (!modulePresent && value == null) {
      System.getLogger("org.ep4j.host")
          .log(
              System.Logger.Level.WARNING,
              "The host engine runs without vector instructions, several times slower: start java"
                  + " with "
                  + FLAG);
    }
  }

  private KernelChoice() {}

  static RowKernels kernels() {
    RowKernels kernels = KERNELS;
    if (kernels == null) {
      // A new exception each time: the one kept has the stack of another thread.
      throw new IllegalArgumentException(REFUSED == null ? "" : REFUSED.getMessage());
    }
    return kernels;
  }

  /** The width that property value {@code value} asks for: 0 = plain, or {@link #AUTO}. */
  static int bits(@Nullable String value, boolean modulePresent) {
    if (value == null) {
      return modulePresent ? AUTO : 0;
    }
    int bits =
        switch (value.strip()) {
          case "0" -> 0;
          case "128" -> 128;
          case "256" -> 256;
          case "512" -> 512;
          default ->
              throw new IllegalArgumentException(
                  PROPERTY
                      + " is \""
                      + value
                      + "\"; it must be 0 (plain kernels), 128, 256 or 512, or left out");
        };
    if (bits != 0 && !modulePresent) {
      throw new IllegalArgumentException(
          PROPERTY
              + " is "
              + bits
              + ", but vectors need module "
              + MODULE
              + ": start java with "
              + FLAG
              + ", or set the property to 0");
    }
    return bits;
  }
}
