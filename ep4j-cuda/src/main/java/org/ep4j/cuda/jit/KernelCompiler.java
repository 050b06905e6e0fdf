package org.ep4j.cuda.jit;

import java.lang.System.Logger.Level;
import java.nio.file.Path;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.stream.Collectors;
import org.ep4j.cuda.driver.CudaDevice;
import org.ep4j.cuda.driver.CudaModule;
import org.ep4j.engine.RenamedVariables;
import org.ep4j.error.EngineUnavailableException;
import org.ep4j.error.ErrorCode;
import org.ep4j.observe.CompileEvent;
import org.jspecify.annotations.Nullable;

/**
 * Finds the cubin of a spec: in memory, in the cache on disk, among shipped cubins, or by
 * compilation. Any thread; concurrent requests for the same spec share one compilation.
 */
public final class KernelCompiler {
  /**
   * Environment variable with a read-only directory of precompiled cubins, for example from {@code
   * ep4j bundle}. Sources must match; the compiler may differ.
   */
  public static final String SHIPPED_VARIABLE = "EP4J_CUDA_PREBUILT";

  /**
   * {@code 0} disables kernels that are specialised for the constants of one buffer; only general
   * kernels are used.
   */
  public static final String SPECIAL_VARIABLE = "EP4J_CUDA_SPECIALIZE";

  private static final System.Logger LOG = System.getLogger("org.ep4j.cuda");

  static final boolean SPECIAL =
      !"0".equals(RenamedVariables.value(System.getenv(), SPECIAL_VARIABLE));

  /** Origin of a cubin. */
  public enum Origin {
    /** Requested before in this process. */
    MEMORY,
    /** The cache on disk. */
    DISK,
    /** Shipped with ep4j, see {@link #SHIPPED_VARIABLE}. */
    SHIPPED,
    /** Compiled by this request. */
    COMPILED
  }

  /**
   * A compiled kernel.
   *
   * @param image for {@link CudaModule#load}; read-only
   * @param origin origin for this request
   * @param nanos duration of this request
   * @param log output of the compiler if compiled by this request
   */
  public record Cubin(byte[] image, Origin origin, long nanos, String log) {}

  private record Asked(String entry, Map<String, String> defines, String architecture) {}

  private static final Object MAKING = new Object();

  /** No constant of a class: a bad variable would end its initialization in an error of the JVM. */
  private static volatile @Nullable KernelCompiler standard;

  private final CompilerBackend backend;
  private final CubinCache cache;
  private final @Nullable CubinCache shipped;

  /** Specs of this jar's kernels by request: files of the jar do not change. */
  private final SharedResults<Asked, KernelSpec> specs = new SharedResults<>();

  /** Kernels that are being prepared or are ready. */
  private final Set<Asked> prepared = ConcurrentHashMap.newKeySet();

  /** Whether the replacement of a specialised kernel by a general one has been logged. */
  private final AtomicBoolean replaced = new AtomicBoolean();

  private final SharedResults<String, Cubin> memory = new SharedResults<>();

  /** A compiler with a cache. */
  public KernelCompiler(CompilerBackend backend, CubinCache cache) {
    this(backend, cache, null);
  }

  /**
   * A compiler with a cache and shipped cubins.
   *
   * @param shipped cubins that are searched before compilation, or null
   */
  public KernelCompiler(CompilerBackend backend, CubinCache cache, @Nullable CubinCache shipped) {
    this.backend = backend;
    this.cache = cache;
    this.shipped = shipped;
  }

  private static @Nullable CubinCache shipped(@Nullable String directory) {
    return directory == null || directory.isEmpty()
        ? null
        : CubinCache.prebuilt(Path.of(directory));
  }

  /** NVRTC, or nvcc if only nvcc is usable. */
  private static CompilerBackend bestBackend() {
    CompilerBackend inProcess = new NvrtcBackend();
    CompilerBackend program = new NvccBackend();
    return inProcess.find().found() || !program.find().found() ? inProcess : program;
  }

  /**
   * The best compiler of this machine with the cache of the environment; one per process.
   *
   * @throws org.ep4j.error.InvalidArgumentException if a variable of the cache has a bad value
   */
  public static KernelCompiler standard() {
    KernelCompiler made = standard;
    if (made != null) {
      return made;
    }
    synchronized (MAKING) {
      made = standard;
      if (made == null) {
        made =
            new KernelCompiler(
                bestBackend(),
                CubinCache.standard(System.getenv()),
                shipped(RenamedVariables.value(System.getenv(), SHIPPED_VARIABLE)));
        standard = made;
      }
      return made;
    }
  }

  /** Another compiler with the same caches. */
  static KernelCompiler beside(CompilerBackend backend) {
    KernelCompiler standard = standard();
    return new KernelCompiler(backend, standard.cache, standard.shipped);
  }

  /** The cache on disk. */
  public CubinCache cache() {
    return cache;
  }

  /** The compiler. */
  public CompilerBackend backend() {
    return backend;
  }

  /**
   * The cubin of a spec.
   *
   * @throws org.ep4j.cuda.driver.calls.CudaException with the compiler's output if the source is
   *     wrong
   * @throws EngineUnavailableException without a compiler if the cache has no cubin
   */
  public Cubin compile(KernelSpec spec) {
    long start = System.nanoTime();
    String fingerprint = spec.fingerprint();
    Cubin[] made = new Cubin[1];
    CompileEvent event = new CompileEvent();
    event.begin();
    Cubin known = memory.get(fingerprint, () -> made[0] = find(spec, fingerprint, start));
    if (known == made[0]) {
      event.ended(
          spec.description(),
          spec.architecture(),
          known.origin != Origin.COMPILED,
          known.image.length);
      return known;
    }
    return new Cubin(known.image, Origin.MEMORY, System.nanoTime() - start, "");
  }

  /** Compiles a kernel of this jar for a device and loads it there. */
  public CudaModule load(CudaDevice device, String entry, Map<String, String> defines) {
    return load(device, spec(entry, defines, device.architecture()));
  }

  /**
   * Same as {@link #load(CudaDevice, String, Map)} for a kernel that may be specialised for the
   * shape of one buffer. If the specialised kernel is missing and cannot be compiled, the
   * compatible general kernel is loaded.
   */
  public CudaModule load(CudaDevice device, String entry, KernelConstants constants) {
    return load(device, best(entry, constants, device.architecture()));
  }

  /**
   * The best available kernel.
   *
   * @throws EngineUnavailableException if no kernel with the required protocol is available
   */
  KernelSpec best(String entry, KernelConstants constants, String architecture) {
    KernelSpec wanted = spec(entry, constants.wanted(), architecture);
    try {
      compile(wanted);
      return wanted;
    } catch (EngineUnavailableException e) {
      KernelSpec general = spec(entry, constants.general(), architecture);
      compile(general);
      if (replaced.compareAndSet(false, true)) {
        LOG.log(
            Level.INFO, "Using general kernels instead of specialised ones: {0}", e.getMessage());
      }
      return general;
    }
  }

  /** A kernel of this jar. */
  private KernelSpec spec(String entry, Map<String, String> defines, String architecture) {
    return spec(new Asked(entry, Map.copyOf(defines), architecture));
  }

  private KernelSpec spec(Asked wanted) {
    return specs.get(
        wanted, () -> KernelSpec.of(wanted.entry, wanted.defines, wanted.architecture));
  }

  /**
   * Starts to look up kernels of this jar, each on its own thread, so that {@link #load} finds them
   * in memory or waits for the rest of the work. Each kernel once per architecture.
   *
   * @param entries kernel files, with the constants of the later {@link #load}
   */
  public void prepare(Map<String, KernelConstants> entries, String architecture) {
    entries.entrySet().stream()
        .map(e -> new Asked(e.getKey(), e.getValue().wanted(), architecture))
        .filter(prepared::add)
        .forEach(this::beginToLookFor);
  }

  private void beginToLookFor(Asked wanted) {
    Thread.ofPlatform()
        .daemon()
        .name("ep4j-kernel-" + wanted.entry)
        .start(
            () -> {
              try {
                compile(spec(wanted));
              } catch (RuntimeException e) {
                // The later load of the kernel repeats the request and reports the error.
                LOG.log(Level.DEBUG, "{0} is not prepared: {1}", wanted.entry, e);
              }
            });
  }

  /** Compiles a spec and loads it onto a device. */
  public CudaModule load(CudaDevice device, KernelSpec spec) {
    return CudaModule.load(device, compile(spec).image(), spec.description());
  }

  private Cubin find(KernelSpec spec, String fingerprint, long start) {
    if (shipped != null) {
      Optional<byte[]> image = shipped.getNewest(fingerprint + "-");
      if (image.isPresent()) {
        return new Cubin(image.get(), Origin.SHIPPED, System.nanoTime() - start, "");
      }
    }
    if (!backend.find().found()) {
      byte[] cached =
          cache
              .getNewest(fingerprint + "-")
              .orElseThrow(
                  () ->
                      new EngineUnavailableException(
                          ErrorCode.KERNEL_COMPILER_MISSING,
                          backend.find().problem()
                              + "; the cache "
                              + cache.directory()
                              + " holds no "
                              + spec.description()
                              + " either: run ep4j cache warm --arch "
                              + spec.architecture()
                              + " on a machine that can compile it"));
      return new Cubin(cached, Origin.DISK, System.nanoTime() - start, "");
    }
    String key = spec.key(backend.identity());
    Optional<byte[]> cached = cache.get(key);
    if (cached.isPresent()) {
      return new Cubin(cached.get(), Origin.DISK, System.nanoTime() - start, "");
    }
    CompilerBackend.Compiled compiled = backend.compile(spec);
    long nanos = System.nanoTime() - start;
    LOG.log(
        Level.INFO,
        "Compiled {0} with {1} in {2} ms ({3})",
        spec.description(),
        backend.identity(),
        nanos / 1_000_000,
        KernelResources.parse(compiled.log()).stream()
            .map(KernelResources::toString)
            .collect(Collectors.joining("; ")));
    cache.put(key, spec.description(), compiled.cubin());
    return new Cubin(compiled.cubin(), Origin.COMPILED, nanos, compiled.log());
  }
}
