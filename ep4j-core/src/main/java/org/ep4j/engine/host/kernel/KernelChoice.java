package org.ep4j.engine.host.kernel;

import org.ep4j.error.ErrorCode;
import org.ep4j.error.InvalidArgumentException;
import org.jspecify.annotations.Nullable;

/**
 * Chooses the kernels once, when this class is initialised. The vector kernels are constants of
 * their classes (C2 needs the species to be constants), so a process has one vector width.
 *
 * <p>A JVM without C2 executes each vector operation as a call that allocates: a BF16 combine took
 * 45 times as long as with plain kernels. So such a JVM gets plain kernels unless a width is
 * forced.
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

  /** What the JVM says of its compilers, such as {@code mixed mode, sharing}. */
  private static final String VM_INFO = System.getProperty("java.vm.info", "");

  static {
    int bits = 0;
    boolean refused = false;
    try {
      bits = bits(VALUE, MODULE_PRESENT, optimizes(VM_INFO));
    } catch (InvalidArgumentException e) {
      refused = true;
    }
    BITS = bits;
    KERNELS = refused ? null : bits == 0 ? new PlainKernels() : new VectorKernels();
    if (bits == 0 && VALUE == null) {
      System.getLogger("org.ep4j.host").log(System.Logger.Level.WARNING, slower(MODULE_PRESENT));
    }
  }

  private KernelChoice() {}

  static RowKernels kernels() {
    RowKernels kernels = KERNELS;
    if (kernels == null) {
      // A new exception at each call: a stored one would have the stack of another thread.
      throw new IllegalStateException(
          "accepted " + bits(VALUE, MODULE_PRESENT, optimizes(VM_INFO)));
    }
    return kernels;
  }

  /** Whether a JVM has C2: HotSpot calls itself an emulated client if it has C1 alone. */
  static boolean optimizes(String vmInfo) {
    return !vmInfo.contains("emulated-client") && !vmInfo.contains("interpreted mode");
  }

  private static String slower(boolean modulePresent) {
    return "The host engine runs without vector instructions and is several times slower: start java "
        + (modulePresent
            ? "without -XX:TieredStopAtLevel=1, -client or -Xint, which switch the optimizing"
                + " compiler off (java.vm.info = "
                + VM_INFO
                + ')'
            : "with " + FLAG);
  }

  /** The width that property value {@code value} asks for: 0 = plain, or {@link #AUTO}. */
  static int bits(@Nullable String value, boolean modulePresent, boolean optimizing) {
    if (value == null) {
      return modulePresent && optimizing ? AUTO : 0;
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
