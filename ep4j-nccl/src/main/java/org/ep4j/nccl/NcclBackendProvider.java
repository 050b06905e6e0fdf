package org.ep4j.nccl;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.ep4j.config.BackendName;
import org.ep4j.cuda.backend.Backend;
import org.ep4j.cuda.backend.BackendProbe;
import org.ep4j.cuda.backend.BackendProvider;
import org.ep4j.cuda.backend.BackendWorld;
import org.ep4j.cuda.driver.calls.CudaDriver;
import org.ep4j.cuda.jit.LibraryShim;
import org.jspecify.annotations.Nullable;

/** Registers the backend {@code nccl} with {@link java.util.ServiceLoader}. */
public final class NcclBackendProvider implements BackendProvider {
  /** Used by {@link java.util.ServiceLoader}. */
  public NcclBackendProvider() {}

  /** Filled by the first probe; class initialisation makes it thread-safe. */
  private static final class Search {
    private static final BackendProbe RESULT = search();

    private static BackendProbe search() {
      if (NcclLibrary.name().isEmpty()) {
        return BackendProbe.failed(NcclLibrary.places().missing());
      }
      int version = NcclLibrary.version();
      String problem = judge(NcclLibrary.name(), version, lacking());
      if (problem.isEmpty()) {
        problem = CudaDriver.find().problem();
      }
      return problem.isEmpty()
          ? BackendProbe.found(text(version), NcclLibrary.name(), advice(System.getenv()))
          : BackendProbe.failed(problem);
    }
  }

  @Override
  public String name() {
    return BackendName.NCCL;
  }

  @Override
  public BackendProbe probe() {
    return Search.RESULT;
  }

  /** Required functions that the library lacks. */
  private static List<String> lacking() {
    List<String> lacking = new ArrayList<>();
    for (NcclFunction function : NcclFunction.values()) {
      if (!function.optional() && !NcclLibrary.has(function.symbol())) {
        lacking.add(function.symbol());
      }
    }
    NcclFunction.ERROR_TEXTS.stream()
        .filter(symbol -> !NcclLibrary.has(symbol))
        .forEach(lacking::add);
    return lacking;
  }

  /** Why a library is unusable; empty if usable. */
  static String judge(String library, int version, List<String> lacking) {
    if (version > 0 && version < NcclLayouts.OLDEST) {
      return "%s is NCCL %s, too old for symmetric windows (%s or newer): install NCCL 2.28.9 or newer, or set its directory in EP4J_NCCL_HOME"
          .formatted(library, text(version), text(NcclLayouts.OLDEST));
    }
    return lacking.isEmpty()
        ? ""
        : "%s lacks %s: install NCCL 2.28.9 or newer, or set its directory in EP4J_NCCL_HOME"
            .formatted(library, String.join(", ", lacking));
  }

  /** A version as text. */
  static String text(int version) {
    return version < 10_000
        ? version / 1000 + "." + version % 1000 / 100 + "." + version % 100
        : version / 10_000 + "." + version % 10_000 / 100 + "." + version % 100;
  }

  /** Advice about settings of NCCL that affect other users of the GPUs and the network. */
  static List<String> advice(Map<String, String> environment) {
    List<String> advice = new ArrayList<>();
    if (!environment.getOrDefault("NCCL_RUNTIME_CONNECT", "").equals("0")) {
      advice.add(
          "NCCL connects on first use, which slowed other traffic on the same network by up to"
              + " 40 %: set NCCL_RUNTIME_CONNECT=0 to connect at the start (with one network port"
              + " also NCCL_NVLS_ENABLE=0 NCCL_IB_QPS_PER_CONNECTION=4 NCCL_MAX_NCHANNELS=4)");
    }
    for (String needed : List.of("NCCL_CUMEM_ENABLE", "NCCL_WIN_ENABLE")) {
      if (environment.getOrDefault(needed, "").equals("0")) {
        advice.add(needed + "=0 disables the symmetric windows that ep4j needs: unset it");
      }
    }
    return advice;
  }

  @Override
  public @Nullable LibraryShim shim() {
    return NcclLibrary.version() < NcclShim.OLDEST ? null : NcclShim.of();
  }

  @Override
  public String puts() {
    String stores = "stores over NVLink; between nodes ";
    if (NcclLibrary.version() < NcclShim.OLDEST) {
      return stores + "the proxy: GIN needs NCCL " + text(NcclShim.OLDEST);
    }
    String gin = stores + "GIN if NCCL has ports for it, else the proxy";
    String problem = NcclShim.of().compiler().problem();
    return problem.isEmpty() ? gin : gin + " (GIN only if a cache has its shim: " + problem + ")";
  }

  @Override
  public boolean meetsById() {
    return true;
  }

  @Override
  public byte[] uniqueId(BackendWorld world) {
    return uniqueId();
  }

  /** Creates the id of a communicator. */
  byte[] uniqueId() {
    try (Arena arena = Arena.ofConfined()) {
      MemorySegment id = arena.allocate(NcclLayouts.UNIQUE_ID);
      NcclException.check(NcclCalls.uniqueId(id.address()), NcclFunction.GET_UNIQUE_ID, 0);
      return id.toArray(ValueLayout.JAVA_BYTE);
    }
  }

  @Override
  public String objection(BackendWorld world) {
    String objection = SharedGpus.objection(world);
    return objection.isEmpty() ? "" : objection + ", or backend 'direct'";
  }

  @Override
  public Backend open(BackendWorld world, byte[] id) {
    return new NcclBackend(world, NcclCommunicator.open(world, id));
  }
}
