package org.ep4j.engine.host.kernel;

import org.ep4j.ErrorCode;
import org.ep4j.InvalidArgumentException;
import org.jspecify.annotations.Nullable;

/**
 * Chooses the kernels once, when this class is initialised. The vector kernels are constants of
 * their classes (C2 needs the species to be constants), so a process has one vector width.
 */
final class KernelChoice {
  static final String PROPERTY = "ep4j.host.vectorBits";

  /** No forced vector width: the preferred width of the processor. */
  static final int AUTO = -1;

  private static final String MODULE = "jdk.incubator.vector";
  private static final String FLAG = "--add-modules " + MODULE;

  /** Vector bits to use, or {@link #AUTO}. */
  static final int BITS;

  private static final @Nullable RowKernels KERNELS;

  /** What the class was initialised with: each call throws a new exception. */
  private static final @Nullable String VALUE = System.getProperty(PROPERTY);

  private static final boolean MODULE_PRESENT = ModuleLayer.boot().findModule(MODULE).isPresent();

  static {
    int bits = 0;
    boolean refused = false;
    try {
      bits = bits(VALUE, MODULE_PRESENT);
    } catch (InvalidArgumentException e) {
      refused = true;
    }
    BITS = bits;
    KERNELS = refused ? null : bits == 0 ? new PlainKernels() : new VectorKernels();
    if (!MODULE_PRESENT && VALUE == null) {
      System.getLogger("org.ep4j.host")
          .log(
              System.Logger.Level.WARNING,
              "The host engine runs without vector instructions and is several times slower:"
                  + " start java"
                  + " with "
                  + FLAG);
    }
  }

  private KernelChoice() {}

  static RowKernels kernels() {
    RowKernels kernels = KERNELS;
    if (kernels == null) {
      // A new exception at each call: a stored one would have the stack of another thread.
      throw new IllegalStateException("accepted " + bits(VALUE, MODULE_PRESENT));
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
              throw new InvalidArgumentException(
                  ErrorCode.BAD_VECTOR_WIDTH,
                  PROPERTY,
                  '"' + value + '"',
                  "0 (plain kernels), 128, 256 or 512",
                  "set one of these, or leave the property out");
        };
    if (bits != 0 && !modulePresent) {
      throw new InvalidArgumentException(
          ErrorCode.BAD_VECTOR_WIDTH,
          PROPERTY,
          String.valueOf(bits),
          "0 without module " + MODULE,
          "start java with " + FLAG + ", or set the property to 0");
    }
    return bits;
  }
}
