package org.ep4j.cuda.engine.launch;

import java.util.Map;
import java.util.TreeMap;
import org.ep4j.cuda.backend.LibraryModule;
import org.ep4j.cuda.backend.PutTransport;
import org.ep4j.cuda.driver.CudaDevice;
import org.ep4j.cuda.driver.CudaModule;
import org.ep4j.cuda.driver.ResourceStack;
import org.ep4j.cuda.internode.InternodeConnection;
import org.ep4j.cuda.jit.KernelCompiler;
import org.ep4j.cuda.jit.KernelConstants;
import org.ep4j.cuda.jit.LinkedKernels;
import org.jspecify.annotations.Nullable;

/**
 * Loads the kernel files of a buffer: unlinked, or linked to the library of the backend if that
 * library is the transport between nodes.
 */
public record KernelFiles(CudaDevice device, @Nullable PutTransport transport) {
  /** Files of a buffer with this connection to other nodes; null: one node. */
  public static KernelFiles of(CudaDevice device, @Nullable InternodeConnection internode) {
    return new KernelFiles(device, internode == null ? null : internode.transport());
  }

  /** Loads a file; the owner closes it. */
  public CudaModule load(ResourceStack owner, String entry, KernelConstants constants) {
    return transport == null
        ? owner.own(KernelCompiler.standard().load(device, entry, constants))
        : owner.own(LibraryModule.load(device, entry, linked(constants), transport)).module();
  }

  /** Starts to look up files, see {@link KernelCompiler#prepare}. */
  public void prepare(Map<String, KernelConstants> entries) {
    if (transport == null) {
      KernelCompiler.standard().prepare(entries, device.architecture());
    } else {
      entries.forEach(
          (entry, constants) ->
              LinkedKernels.prepare(
                  device.architecture(), entry, linked(constants), transport.parts()));
    }
  }

  /** Linked files are compiled for any shape: a link takes long, and one serves all shapes. */
  private static Map<String, String> linked(KernelConstants constants) {
    Map<String, String> defines = new TreeMap<>(constants.general());
    defines.putAll(LibraryModule.DEFINES);
    return defines;
  }
}
