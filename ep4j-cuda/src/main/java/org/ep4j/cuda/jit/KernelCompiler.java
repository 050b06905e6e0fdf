package org.ep4j.cuda.jit;

import java.lang.System.Logger.Level;
import java.nio.file.Path;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.stream.Collectors;
import org.ep4j.EngineUnavailableException;
import org.ep4j.cuda.driver.CudaDevice;
import org.ep4j.cuda.driver.CudaModule;
import org.ep4j.engine.RenamedVariables;
import org.jspecify.annotations.Nullable;

/**
 * Finds the cubin of a spec: in memory, in the cache on disk, among those that came with ep4j, or
 * by compiling it now. Any thread may ask; two that ask for the same wait for one compilation.
 */
public final class KernelCompiler {
  /**
   * Names a directory of cubins that somebody compiled before, as {@code ep4j bundle} does: a cache
   * that nothing is added to. Their sources are compared, their compiler may be any.
   */
  public static final String SHIPPED_VARIABLE = "EP4J_CUDA_PREBUILT";

  /**
   * {@code 0}: no kernels for the constants of one buffer are made or looked for, only general
   * ones.
   */
  public static final String SPECIAL_VARIABLE = "EP4J_CUDA_SPECIALIZE";

  private static final System.Logger LOG = System.getLogger("org.ep4j.cuda");

  static final boolean SPECIAL =
      !"0".equals(RenamedVariables.value(System.getenv(), SPECIAL_VARIABLE));

  /** Where a cubin came from. */
  public enum Origin {
    /** Asked for before in this process. */
    MEMORY,
    /** The cache on disk. */
    DISK,
    /** Came with ep4j, see {@link #SHIPPED_VARIABLE}. */
    SHIPPED,
    /** Compiled now. */
    COMPILED
  }

  /**
   * A compiled kernel.
   *
   * @param image for {@link CudaModule#load}; not to be changed
   * @param origin where it came from this time
   * @param nanos how long that took
   * @param log of the compiler if it was compiled now
   */
  public record Cubin(byte[] image, Origin origin, long nanos, String log) {}

  private record Asked(String entry, Map<String, String> defines, String architecture) {}

  private static final class Standard {
    private static final KernelCompiler COMPILER =
        new KernelCompiler(
            bestBackend(),
            CubinCache.standard(System.getenv()),
            shipped(RenamedVariables.value(System.getenv(), SHIPPED_VARIABLE)));
  }

  private final CompilerBackend backend;
  private final CubinCache cache;
  private final @Nullable CubinCache shipped;

  /** Kernels of this jar by what they were asked for: its files do not change. */
  private final ConcurrentHashMap<Asked, KernelSpec> specs = new ConcurrentHashMap<>();

  /** Kernels that somebody looks for, or has. */
  private final Set<Asked> prepared = ConcurrentHashMap.newKeySet();

  /** Kernels for one shape of which has been said that there is a general one in their place. */
  private final Set<String> replaced = ConcurrentHashMap.newKeySet();

  private final ConcurrentHashMap<String, Cubin> memory = new ConcurrentHashMap<>();

  /** A compiler with a cache. */
  public KernelCompiler(CompilerBackend backend, CubinCache cache) {
    this(backend, cache, null);
  }

  /**
   * The same where some kernels have been compiled before.
   *
   * @param shipped where to look before anything is compiled, or null
   */
  public KernelCompiler(CompilerBackend backend, CubinCache cache, @Nullable CubinCache shipped) {
    this.backend = backend;
    this.cache = cache;
    this.shipped = shipped;
  }

  private static @Nullable CubinCache shipped(@Nullable String directory) {
    return directory == null || directory.isEmpty()
        ? null
        : new CubinCache(Path.of(directory), Long.MAX_VALUE);
  }

  /** NVRTC, or nvcc where only that is. */
  private static CompilerBackend bestBackend() {
    CompilerBackend inProcess = new NvrtcBackend();
    CompilerBackend program = new NvccBackend();
    return inProcess.find().found() || !program.find().found() ? inProcess : program;
  }

  /** The best compiler here, with the cache that the environment names; one in a process. */
  public static KernelCompiler standard() {
    return Standard.COMPILER;
  }

  /** Another compiler with the same caches. */
  static KernelCompiler beside(CompilerBackend backend) {
    return new KernelCompiler(backend, Standard.COMPILER.cache, Standard.COMPILER.shipped);
  }

  /** The cache on disk. */
  public CubinCache cache() {
    return cache;
  }

  /** The compiler behind it. */
  public CompilerBackend backend() {
    return backend;
  }

  /**
   * The cubin of a spec.
   *
   * @throws org.ep4j.cuda.driver.CudaException with the compiler's words if the source is wrong
   * @throws EngineUnavailableException if there is no compiler, and the cache has no cubin
   */
  public Cubin compile(KernelSpec spec) {
    long start = System.nanoTime();
    String fingerprint = spec.fingerprint();
    Cubin known = memory.get(fingerprint);
    if (known == null) {
      Cubin[] made = new Cubin[1];
      known = memory.computeIfAbsent(fingerprint, _ -> made[0] = find(spec, fingerprint, start));
      if (known == made[0]) {
        return known;
      }
    }
    return new Cubin(known.image, Origin.MEMORY, System.nanoTime() - start, "");
  }

  /** Compiles a kernel of this jar for a device and loads it there. */
  public CudaModule load(CudaDevice device, String entry, Map<String, String> defines) {
    return load(device, spec(entry, defines, device.architecture()));
  }

  /**
   * The same for a kernel that may be made for the shape of one buffer. Where that kernel is not,
   * and there is no compiler for it, the one for any shape is loaded, which works the same way.
   */
  public CudaModule load(CudaDevice device, String entry, KernelConstants constants) {
    return load(device, best(entry, constants, device.architecture()));
  }

  /**
   * The best kernel that there is.
   *
   * @throws EngineUnavailableException if there is none that works the way that was asked for
   */
  KernelSpec best(String entry, KernelConstants constants, String architecture) {
    KernelSpec wanted = spec(entry, constants.wanted(), architecture);
    try {
      compile(wanted);
      return wanted;
    } catch (EngineUnavailableException e) {
      KernelSpec general = spec(entry, constants.general(), architecture);
      compile(general);
      if (replaced.add(wanted.fingerprint())) {
        LOG.log(Level.INFO, "A general kernel in its place: {0}", e.getMessage());
      }
      return general;
    }
  }

  /** A kernel of this jar. */
  private KernelSpec spec(String entry, Map<String, String> defines, String architecture) {
    return spec(new Asked(entry, Map.copyOf(defines), architecture));
  }

  private KernelSpec spec(Asked wanted) {
    return specs.computeIfAbsent(
        wanted, asked -> KernelSpec.of(asked.entry, asked.defines, asked.architecture));
  }

  /**
   * Begins to look for kernels of this jar, each on a thread of its own, so that {@link #load}
   * finds them in memory, or waits for the rest of the work. Each once for an architecture.
   *
   * @param entries kernel files, with the constants that {@link #load} will ask for
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
                // Who loads the kernel asks again, and is told.
                LOG.log(Level.DEBUG, "{0} is not there yet: {1}", wanted.entry, e);
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
                          backend.find().problem()
                              + "; the cache "
                              + cache.directory()
                              + " holds no "
                              + spec.description()
                              + " either: on a machine that can compile it, ep4j cache warm --arch "
                              + spec.architecture()
                              + " fills it"));
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
