package org.ep4j.cuda.jit;

import java.lang.System.Logger.Level;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.ep4j.cuda.driver.CudaDevice;
import org.ep4j.cuda.driver.CudaModule;
import org.ep4j.cuda.driver.calls.LibrarySearch;
import org.ep4j.cuda.driver.compiler.NvJitLink;
import org.ep4j.cuda.driver.compiler.Nvrtc;
import org.ep4j.cuda.driver.compiler.RunningCompilations;
import org.ep4j.error.EngineUnavailableException;
import org.ep4j.error.ErrorCode;

/**
 * Kernels that call device functions of a library: compiled to intermediate code by NVRTC, linked
 * to those functions by nvJitLink in this process, and stored in the cache of compiled kernels. Any
 * thread.
 */
public final class LinkedKernels {
  private static final System.Logger LOG = System.getLogger("org.ep4j.cuda");

  /** Macro with the identity of the linked parts; no source reads it. */
  private static final String LINKED_TO = "EP4J_LINKED_TO";

  private static final int FINGERPRINT_BYTES = 8;

  /** Makes the linker log registers and spills. */
  private static final String TELLS_RESOURCES = "-Xptxas=-v";

  /**
   * The assembler (13.0 to 13.4) loses predicates that live long: in an exact internode combine,
   * the branch of the lane that stores a piece tested the end of the row instead, so that no lane
   * stored short rows. -O1 kept that predicate; it is no remedy for others (lost-predicates.md).
   */
  private static final String FEW_OPTIMIZATIONS = "-Xptxas=-O1";

  /** By fingerprint of the spec. */
  private static final SharedResults<String, byte[]> LINKED = new SharedResults<>();

  private LinkedKernels() {}

  /** Why kernels cannot be linked here; empty if they can. */
  public static String problem() {
    String compiler = Nvrtc.find().problem();
    return compiler.isEmpty() ? NvJitLink.find().problem() : compiler;
  }

  /**
   * Compiles a kernel of this jar, links it and loads it.
   *
   * @throws EngineUnavailableException without a compiler or linker if the cache has no such kernel
   * @throws org.ep4j.cuda.driver.calls.CudaException with the tool's output if compilation or link
   *     fail
   */
  public static CudaModule load(
      CudaDevice device, String entry, Map<String, String> defines, List<DevicePart> parts) {
    KernelSpec spec = spec(device.architecture(), entry, defines, parts);
    return CudaModule.load(device, linked(spec, parts), spec.description());
  }

  /**
   * Starts to link a kernel of this jar on its own thread, so that {@link #load} finds it or waits
   * for the rest of the work.
   */
  public static void prepare(
      String architecture, String entry, Map<String, String> defines, List<DevicePart> parts) {
    Thread.ofPlatform()
        .daemon()
        .name("ep4j-link-" + entry)
        .start(
            () -> {
              try {
                linked(spec(architecture, entry, defines, parts), parts);
              } catch (RuntimeException e) {
                // The later load of the kernel repeats the request and reports the error.
                LOG.log(Level.DEBUG, "{0} is not linked yet: {1}", entry, e);
              }
            });
  }

  /** The linked parts are part of a kernel's identity in the caches. */
  private static KernelSpec spec(
      String architecture, String entry, Map<String, String> defines, List<DevicePart> parts) {
    Map<String, String> all = new TreeMap<>(defines);
    all.put(LINKED_TO, fingerprint(parts));
    return KernelSpec.of(entry, all, architecture);
  }

  private static String fingerprint(List<DevicePart> parts) {
    try {
      MessageDigest digest = MessageDigest.getInstance("SHA-1");
      parts.forEach(part -> digest.update(part.image()));
      return HexFormat.of().formatHex(digest.digest(), 0, FINGERPRINT_BYTES);
    } catch (NoSuchAlgorithmException e) {
      throw new AssertionError(e);
    }
  }

  private static byte[] linked(KernelSpec spec, List<DevicePart> parts) {
    return LINKED.get(
        spec.fingerprint(),
        () -> KernelCompiler.beside(new Linking(List.copyOf(parts))).compile(spec).image());
  }

  /** NVRTC followed by the linker. */
  private record Linking(List<DevicePart> parts) implements CompilerBackend {
    @Override
    public LibrarySearch find() {
      String problem = problem();
      return problem.isEmpty() ? Nvrtc.find() : new LibrarySearch("", problem);
    }

    /**
     * Includes the optimisation level: cubins that older ep4j linked with another level are not
     * used.
     */
    @Override
    public String identity() {
      return "nvrtc" + Nvrtc.version() + "-nvjitlink" + NvJitLink.version() + "-o1";
    }

    @Override
    public Compiled compile(KernelSpec spec) {
      return link(spec, parts);
    }
  }

  /**
   * Links device code without a kernel file and loads it.
   *
   * @param name name in messages
   */
  public static CudaModule load(CudaDevice device, String name, List<DevicePart> parts) {
    return CudaModule.load(device, link(device.architecture(), parts).cubin(), name);
  }

  /** Links without caches; needs no device. */
  public static CompilerBackend.Compiled link(
      String architecture, String entry, Map<String, String> defines, List<DevicePart> parts) {
    if (!problem().isEmpty()) {
      throw new EngineUnavailableException(
          ErrorCode.KERNEL_LINKER_MISSING, entry + " cannot be linked: " + problem());
    }
    return link(KernelSpec.of(entry, defines, architecture), parts);
  }

  private static CompilerBackend.Compiled link(KernelSpec spec, List<DevicePart> parts) {
    List<String> options = new ArrayList<>(spec.options());
    options.addAll(List.of("-dlto", "-rdc=true"));
    String entry = spec.sources().entry();
    byte[] kernel =
        Nvrtc.compile(
                entry,
                spec.sources().text(),
                spec.sources().headers(),
                options,
                Nvrtc.Output.LTO_IR)
            .image();
    List<DevicePart> all = new ArrayList<>();
    all.add(new DevicePart(NvJitLink.Input.LTO_IR, kernel, entry));
    all.addAll(parts);
    return link(spec.architecture(), all);
  }

  private static CompilerBackend.Compiled link(String architecture, List<DevicePart> parts) {
    return RunningCompilations.run("nvJitLink", () -> linkedBy(architecture, parts));
  }

  private static CompilerBackend.Compiled linkedBy(String architecture, List<DevicePart> parts) {
    List<String> options =
        List.of(
            KernelSpec.ARCHITECTURE_OPTION + architecture,
            "-lto",
            TELLS_RESOURCES,
            FEW_OPTIMIZATIONS);
    try (NvJitLink link = NvJitLink.create(options)) {
      for (DevicePart part : parts) {
        link.add(part.kind(), part.image(), part.name());
      }
      byte[] cubin = link.link();
      return new CompilerBackend.Compiled(cubin, link.infoLog());
    }
  }
}
