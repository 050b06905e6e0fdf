package org.ep4j.memory;

import java.io.IOException;
import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.Linker;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.lang.invoke.MethodHandle;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.HexFormat;
import org.jspecify.annotations.Nullable;

/**
 * Cache-bypassing copies of one thread: each reads a row once and writes it to one or more places.
 * An ordinary store first reads the cache line that it overwrites; for data larger than a cache
 * that read is wasted, and with it a third of the memory bandwidth. The JVM's own copy uses
 * streaming stores only for single copies of megabytes, while rows of a dispatch are a few
 * kilobytes each. No Java API offers streaming stores or prefetch instructions, so this class
 * contains a function of a few machine instructions for the copy, and one for its fence.
 *
 * <p>{@link #places} begins with prefetch places, followed by places to copy to. A copy also
 * prefetches as many bytes as it copies, {@link #AHEAD} bytes behind each prefetch place: data that
 * the caller reads soon is then in the cache. Prefetching is a hint; it has no effect where no
 * memory is mapped.
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
public final class NonTemporalCopy {
  /**
   * {@code false}: never; {@code true}: for copies of any size; otherwise for large copies only.
   */
  public static final String PROPERTY = "ep4j.host.streaming";

  /** Copy lengths are multiples of this, in bytes. */
  static final int STEP = 128;

  /** Multiples of this address can be written around the cache. */
  public static final int ALIGNMENT = 16;

  /** Distance of the prefetch from its place, in bytes. 1 to 3 KiB perform equally. */
  public static final int AHEAD = 2048;

  /** The two native functions: a few machine instructions each. */
  private static final class Code {
    /**
     * {@code copy(rdi = source, rsi = bytes, rdx = places, rcx = number of places to prefetch from,
     * r8 = number of places to copy to)}. The prefetch addresses are first, followed by the
     * addresses to copy to, at least one. Uses only SSE2, which every x86-64 processor has: two
     * cache lines per iteration are as fast as 64-byte stores with AVX-512.
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

    private Code() {}

    static boolean available() {
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

    static void fence() {
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
      // Critical: a call lasts microseconds and never calls back into Java. Heap access: for
      // places.
      return Linker.nativeLinker()
          .downcallHandle(
              MemorySegment.ofAddress(CODE.address() + offset),
              descriptor,
              Linker.Option.critical(true));
    }
  }

  /** Maximum bytes of one native call: the JVM cannot reach a safepoint during the call. */
  private static final long PIECE = 64 << 10;

  /**
   * Measured on a machine that reports ten times this size: equal at 30 MB, 1.6 times as fast at 52
   * MB.
   */
  private static final long SHARE = 48L << 20;

  private static final long LARGE =
      Boolean.getBoolean(PROPERTY) ? 0 : Math.min(SHARE, lastLevelCache());

  /** Addresses of the next copy; the caller writes them. */
  public final long[] places;

  /** The same addresses for the native function. */
  private final MemorySegment list;

  private final boolean streaming;

  /**
   * A stream that bypasses the cache if {@link #available}.
   *
   * @param max number of {@link #places}
   */
  public NonTemporalCopy(int max) {
    this(max, available());
  }

  NonTemporalCopy(int max, boolean streaming) {
    places = new long[max];
    list = MemorySegment.ofArray(places);
    this.streaming = streaming;
  }

  /**
   * Copies {@code bytes} bytes to each of the places behind the first {@code fetches}, and advances
   * all places by as many bytes. The ranges overlap neither each other nor the source. Any address
   * and length is allowed, but only whole {@value #STEP} bytes to places that are all multiples of
   * {@value #ALIGNMENT} bypass the cache.
   *
   * @param fetches number of places to prefetch from
   * @param copies number of places to copy to
   */
  public void copy(long source, long bytes, int fetches, int copies) {
    int end = fetches + copies;
    for (long done = 0, piece; done < bytes; done += piece) {
      piece = Math.min(bytes - done, PIECE);
      long streamed = streaming && aligned(fetches, end) ? piece & -STEP : 0;
      if (streamed != 0) {
        Code.copy(source + done, streamed, list, fetches, copies);
      }
      for (int i = fetches; streamed != piece && i < end; i++) {
        NativeMemory.copy(source + done + streamed, places[i] + streamed, piece - streamed);
      }
      for (int i = 0; i < end; i++) {
        places[i] += piece;
      }
    }
  }

  /** Whether there are places from {@code from} to {@code end}, all of them aligned. */
  private boolean aligned(int from, int end) {
    long bits = from < end ? 0 : 1;
    for (int i = from; i < end; i++) {
      bits |= places[i];
    }
    return (bits & (ALIGNMENT - 1)) == 0;
  }

  /** Whether copies can bypass the cache on this machine. */
  public static boolean available() {
    return Code.available();
  }

  /**
   * Whether non-temporal stores are faster for {@code bytes} bytes of rows on all ranks of the host
   * together.
   *
   * <p>Rows that fit into the last-level cache are better written into it: a line that is
   * overwritten in each operation stays there, and its next reader finds it. Larger rows cost a
   * third more read traffic that way. All ranks of a host share that cache, so the sum over all
   * ranks counts. The reported size is only an upper bound of the share of ep4j: other programs use
   * the cache too, and a virtual machine reports the size of the cache of the whole socket.
   */
  public static boolean pays(long bytes) {
    return available() && bytes >= LARGE;
  }

  /** Orders this thread's cache-bypassing copies before all its later stores. */
  public static void fence() {
    Code.fence();
  }

  /** Bytes of the largest cache of the first processor, {@link Long#MAX_VALUE} if unknown. */
  private static long lastLevelCache() {
    long largest = 0;
    for (int index = 0; index < 5; index++) {
      Path file = Path.of("/sys/devices/system/cpu/cpu0/cache/index" + index + "/size");
      try {
        String size = Files.readString(file).strip();
        if (size.matches("[0-9]{1,12}K")) {
          largest = Math.max(largest, Long.parseLong(size.substring(0, size.length() - 1)) << 10);
        }
      } catch (IOException e) {
        // Some systems do not report this cache, and some processors do not have it.
      }
    }
    return largest == 0 ? Long.MAX_VALUE : largest;
  }

  /**
   * Ensures that pages of shared memory exist before a copy writes them. If a full file system
   * cannot provide a page, an access from Java code throws an exception, but an access from native
   * code ends the process. Touched pages stay.
   */
  public static final class PresentPages {
    private static final long PAGE = 4096;

    /** Per rank, the addresses that are known to be present: from (inclusive), to (exclusive). */
    private final long[] from;

    private final long[] to;

    /** Number of resets when the pages were checked. */
    private int generation = -1;

    /** For the memory of all ranks; null if all of it belongs to this process. */
    public static @Nullable PresentPages of(SymmetricMemory memory, int ranks) {
      return memory.sameAddressSpace() ? null : new PresentPages(ranks);
    }

    private PresentPages(int ranks) {
      from = new long[ranks];
      to = new long[ranks];
    }

    /** Forgets all pages after a reset: a rank may have new memory. */
    public void forget(int reset) {
      if (generation != reset) {
        generation = reset;
        Arrays.fill(from, Long.MAX_VALUE);
        Arrays.fill(to, 0);
      }
    }

    /**
     * Touches the untouched pages of {@code rank}'s memory from {@code start} to {@code end}.
     *
     * @throws InternalError if the system cannot provide a page
     */
    public void require(int rank, long start, long end) {
      if (start < from[rank] || end > to[rank]) {
        for (long at = start & -PAGE; at < end; at += PAGE) {
          // With acquire order: the compiler may remove an unused plain load.
          NativeMemory.getLongAcquire(at);
        }
        // Slots start at the same address in each operation, so the ranges nearly always overlap.
        boolean joined = start <= to[rank] && end >= from[rank];
        from[rank] = joined ? Math.min(start, from[rank]) : start;
        to[rank] = joined ? Math.max(end, to[rank]) : end;
      }
    }
  }
}
