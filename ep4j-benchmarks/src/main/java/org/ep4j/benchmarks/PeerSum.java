package org.ep4j.benchmarks;

import java.lang.foreign.Arena;
import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.Linker;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.SymbolLookup;
import java.lang.foreign.ValueLayout;
import java.lang.invoke.MethodHandle;
import java.nio.file.Path;

/**
 * Binding of {@code bf16_sum} of the C programs, so that C and Java sum the same rows in the same
 * process. System property {@value #PROPERTY} names the library.
 */
final class PeerSum {
  static final String PROPERTY = "ep4j.peerLibrary";

  private static final MethodHandle BF16_SUM = bind();
  private static final MemorySegment ROWS = Arena.global().allocate(ValueLayout.JAVA_LONG, 64);

  private PeerSum() {}

  @SuppressWarnings("restricted") // the purpose of the class
  private static MethodHandle bind() {
    String library = System.getProperty(PROPERTY);
    if (library == null) {
      throw new IllegalStateException(
          PROPERTY + " is not set: run benchmarks/compare-kernels.sh, or leave out the peer");
    }
    MemorySegment function =
        SymbolLookup.libraryLookup(Path.of(library), Arena.global()).findOrThrow("bf16_sum");
    return Linker.nativeLinker()
        .downcallHandle(
            function,
            FunctionDescriptor.ofVoid(
                ValueLayout.JAVA_LONG,
                ValueLayout.JAVA_INT,
                ValueLayout.JAVA_LONG,
                ValueLayout.JAVA_LONG),
            Linker.Option.critical(false));
  }

  /** Sums {@code count} bf16 rows; one thread at a time. */
  static void sum(long[] rows, int count, long out, int elements) {
    for (int i = 0; i < count; i++) {
      ROWS.setAtIndex(ValueLayout.JAVA_LONG, i, rows[i]);
    }
    try {
      BF16_SUM.invokeExact(ROWS.address(), count, out, (long) elements);
    } catch (Throwable e) {
      throw new AssertionError("bf16_sum throws nothing", e);
    }
  }
}
