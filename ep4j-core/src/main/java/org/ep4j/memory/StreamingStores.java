package org.ep4j.memory;

import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.Linker;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.lang.invoke.MethodHandle;
import java.util.HexFormat;
import org.jspecify.annotations.Nullable;

/**
 * Binding of two functions of a few machine instructions, contained in this class: a
 * cache-bypassing copy (used through {@link NonTemporalCopy}), and its fence. An ordinary store
 * first reads the cache line that it overwrites; for data larger than a cache that read is wasted,
 * and with it a third of the memory bandwidth. The JVM's own copy uses streaming stores only for
 * single copies of megabytes, while rows of a dispatch are a few kilobytes each. No Java API offers
 * streaming stores or prefetch instructions.
 *
 * <p>Memory order. x86 keeps ordinary stores in order, which is all that a release store needs
 * there. A streaming store may become visible after any later store, also that of a progress word.
 * Therefore every thread that has copied calls {@link #fence()} after its last copy and before it
 * publishes anything about the data, to another rank or to the thread that will publish.
 *
 * <p>If the functions are unavailable (another architecture, a system that forbids executable
 * memory, system property {@code ep4j.host.streaming} = {@code false}), one log line reports the
 * reason, {@link #available()} is false, and copies are ordinary ones with the same bytes.
 */
@SuppressWarnings("restricted") // linking native functions is what this class is for
public final class StreamingStores {
  /**
   * {@code false}: never; {@code true}: for copies of any size; otherwise for large copies only.
   */
  public static final String PROPERTY = "ep4j.host.streaming";

  /** Copy lengths are multiples of this, in bytes. */
  static final int STEP = 128;

  /** Places to copy to are multiples of this address. */
  static final int ALIGNMENT = 16;

  /** Prefetch distance in the code below, in bytes. 1 to 3 KiB perform equally. */
  static final int AHEAD = 2048;

  /**
   * {@code copy(rdi = source, rsi = bytes, rdx = places, rcx = number of places to prefetch from,
   * r8 = number of places to copy to)}. The prefetch addresses are first, followed by the addresses
   * to copy to, at least one. Uses only SSE2, which every x86-64 processor has: two cache lines per
   * iteration are as fast as 64-byte stores with AVX-512.
   */
  private static final String[] COPY = {
    "f30f1efa", //             endbr64                         where indirect calls are policed
    "488d0cca", //             lea rcx, [rdx + rcx*8]          rcx: first place to copy to
    "4e8d04c1", //             lea r8, [rcx + r8*8]            r8: end of the places
    "31c0", //                 xor eax, eax                    rax: bytes done
    "f30f6f0407", //     next: movdqu xmm0, [rdi + rax]        load 128 bytes once
    "f30f6f4c0710", //         movdqu xmm1, [rdi + rax + 16]
    "f30f6f540720", //         movdqu xmm2, [rdi + rax + 32]
    "f30f6f5c0730", //         movdqu xmm3, [rdi + rax + 48]
    "f30f6f640740", //         movdqu xmm4, [rdi + rax + 64]
    "f30f6f6c0750", //         movdqu xmm5, [rdi + rax + 80]
    "f30f6f740760", //         movdqu xmm6, [rdi + rax + 96]
    "f30f6f7c0770", //         movdqu xmm7, [rdi + rax + 112]
    "4989d1", //               mov r9, rdx                     r9: walks through the places
    "eb19", //                 jmp more
    "4d8b11", //        fetch: mov r10, [r9]
    "410f188c0200080000", //   prefetcht0 [r10 + rax + 2048]   AHEAD
    "410f188c0240080000", //   prefetcht0 [r10 + rax + 2112]   AHEAD + a line
    "4983c108", //             add r9, 8
    "4939c9", //         more: cmp r9, rcx
    "72e2", //                 jb fetch
    "4d8b11", //        store: mov r10, [r9]
    "66410fe70402", //         movntdq [r10 + rax], xmm0       write them to each place
    "66410fe74c0210", //       movntdq [r10 + rax + 16], xmm1
    "66410fe7540220", //       movntdq [r10 + rax + 32], xmm2
    "66410fe75c0230", //       movntdq [r10 + rax + 48], xmm3
    "66410fe7640240", //       movntdq [r10 + rax + 64], xmm4
    "66410fe76c0250", //       movntdq [r10 + rax + 80], xmm5
    "66410fe7740260", //       movntdq [r10 + rax + 96], xmm6
    "66410fe77c0270", //       movntdq [r10 + rax + 112], xmm7
    "4983c108", //             add r9, 8
    "4d39c1", //               cmp r9, r8
    "72bd", //                 jb store
    "4883e880", //             sub rax, -128                   shorter than add rax, 128
    "4839f0", //               cmp rax, rsi
    "0f825effffff", //         jb next
    "c3" //                    ret
  };

  /** {@code fence()}. */
  private static final String[] FENCE = {
    "f30f1efa", // endbr64
    "0faef8", //   sfence
    "c3" //        ret
  };

  private static final int FENCE_OFFSET = 256;
  private static final int CODE_BYTES = 4096;

  private static final MemorySegment CODE = install();
  private static final @Nullable MethodHandle COPY_HANDLE =
      handle(
          0,
          FunctionDescriptor.ofVoid(
              ValueLayout.JAVA_LONG,
              ValueLayout.JAVA_LONG,
              ValueLayout.ADDRESS,
              ValueLayout.JAVA_LONG,
              ValueLayout.JAVA_LONG));
  private static final @Nullable MethodHandle FENCE_HANDLE =
      handle(FENCE_OFFSET, FunctionDescriptor.ofVoid());

  private StreamingStores() {}

  /** Whether copies can bypass the cache on this machine. */
  public static boolean available() {
    return COPY_HANDLE != null;
  }

  /**
   * Copies {@code bytes} bytes to each place; only if {@link #available}.
   *
   * @param bytes a positive multiple of {@link #STEP}
   * @param places a {@code long[]}: addresses to prefetch from, then addresses to copy to
   * @param fetches number of the former
   * @param copies number of the latter, at least 1; multiples of {@link #ALIGNMENT}
   */
  static void copy(long source, long bytes, MemorySegment places, int fetches, int copies) {
    if (COPY_HANDLE == null) {
      throw new IllegalStateException("streaming stores are not available");
    }
    try {
      COPY_HANDLE.invokeExact(source, bytes, places, (long) fetches, (long) copies);
    } catch (Throwable t) {
      throw new AssertionError("a copy cannot throw", t);
    }
  }

  /** Orders this thread's cache-bypassing copies before all its later stores. */
  public static void fence() {
    if (FENCE_HANDLE == null) {
      return;
    }
    try {
      FENCE_HANDLE.invokeExact();
    } catch (Throwable t) {
      throw new AssertionError("a fence cannot throw", t);
    }
  }

  /**
   * A page with the functions, for the lifetime of the process; NULL if unavailable. The page is
   * first writable, then executable, never both.
   */
  private static MemorySegment install() {
    String architecture = System.getProperty("os.arch", "");
    if (!architecture.equals("amd64")) {
      return unavailable("the processor is " + architecture + ", not amd64");
    }
    if (System.getProperty(PROPERTY, "").equals("false")) {
      return unavailable(PROPERTY + " is false");
    }
    long page = Libc.mapAnonymous(CODE_BYTES);
    write(page, COPY);
    write(page + FENCE_OFFSET, FENCE);
    if (!Libc.makeExecutable(page, CODE_BYTES)) {
      Libc.unmap(page, CODE_BYTES);
      return unavailable("the system forbids executable memory");
    }
    return MemorySegment.ofAddress(page);
  }

  private static MemorySegment unavailable(String reason) {
    System.getLogger("org.ep4j.host")
        .log(
            System.Logger.Level.INFO,
            "Large copies use the cache, at about two thirds of the speed: {0}",
            reason);
    return MemorySegment.NULL;
  }

  private static void write(long address, String[] code) {
    byte[] bytes = HexFormat.of().parseHex(String.join("", code));
    NativeMemory.copy(MemorySegment.ofArray(bytes), 0, address, bytes.length);
  }

  private static @Nullable MethodHandle handle(long offset, FunctionDescriptor descriptor) {
    if (CODE.equals(MemorySegment.NULL)) {
      return null;
    }
    // Critical: a call lasts microseconds and never calls back into Java. Heap access: for places.
    return Linker.nativeLinker()
        .downcallHandle(
            MemorySegment.ofAddress(CODE.address() + offset),
            descriptor,
            Linker.Option.critical(true));
  }
}
