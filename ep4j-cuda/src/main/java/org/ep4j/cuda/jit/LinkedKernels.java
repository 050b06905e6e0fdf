package org.ep4j.cuda.jit;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.ep4j.EngineUnavailableException;
import org.ep4j.cuda.driver.CudaDevice;
import org.ep4j.cuda.driver.CudaModule;
import org.ep4j.cuda.driver.NvJitLink;
import org.ep4j.cuda.driver.Nvrtc;

/**
 * Kernels that call device functions of others: compiled to intermediate code by NVRTC, linked to
 * those by nvJitLink, in this process and each time anew.
 */
public final class LinkedKernels {
  private LinkedKernels() {}

  /** Why kernels cannot be linked here; empty if they can. */
  public static String problem() {
    String compiler = Nvrtc.find().problem();
    return compiler.isEmpty() ? NvJitLink.find().problem() : compiler;
  }

  /**
   * Compiles a kernel of this jar, links it and loads it.
   *
   * @throws EngineUnavailableException if there is no compiler or no linker
   * @throws org.ep4j.cuda.driver.CudaException with their words if something does not fit
   */
  public static CudaModule load(
      CudaDevice device, String entry, Map<String, String> defines, List<DevicePart> parts) {
    return CudaModule.load(device, link(device.architecture(), entry, defines, parts), entry);
  }

  /**
   * Links device code alone and loads it, for the kernels in it.
   *
   * @param name for messages
   */
  public static CudaModule load(CudaDevice device, String name, List<DevicePart> parts) {
    return CudaModule.load(device, link(device.architecture(), parts), name);
  }

  /** The cubin alone; needs no device. */
  public static byte[] link(
      String architecture, String entry, Map<String, String> defines, List<DevicePart> parts) {
    if (!problem().isEmpty()) {
      throw new EngineUnavailableException(entry + " must be linked: " + problem());
    }
    KernelSpec spec = KernelSpec.of(entry, defines, architecture);
    List<String> options = new ArrayList<>(spec.options());
    options.addAll(List.of("-dlto", "-rdc=true"));
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
    return link(architecture, all);
  }

  private static byte[] link(String architecture, List<DevicePart> parts) {
    try (NvJitLink link =
        NvJitLink.create(List.of(KernelSpec.ARCHITECTURE_OPTION + architecture, "-lto"))) {
      for (DevicePart part : parts) {
        link.add(part.kind(), part.image(), part.name());
      }
      return link.link();
    }
  }
}
