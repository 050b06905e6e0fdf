package org.ep4j.nvshmem;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.function.IntUnaryOperator;
import org.ep4j.config.BackendName;
import org.ep4j.cuda.backend.Backend;
import org.ep4j.cuda.backend.BackendProbe;
import org.ep4j.cuda.backend.BackendProvider;
import org.ep4j.cuda.backend.BackendWorld;
import org.ep4j.cuda.backend.RankLocation;
import org.ep4j.cuda.driver.calls.CudaDriver;
import org.ep4j.cuda.jit.LibraryShim;
import org.jspecify.annotations.Nullable;

/** Registers the backend {@code nvshmem} with {@link java.util.ServiceLoader}. */
public final class NvshmemBackendProvider implements BackendProvider {
  /** Used by {@link java.util.ServiceLoader}. */
  public NvshmemBackendProvider() {}

  /** Filled by the first probe; class initialisation makes it thread-safe. */
  private static final class Search {
    private static final BackendProbe RESULT = search();

    private static BackendProbe search() {
      if (NvshmemLibrary.name().isEmpty()) {
        return BackendProbe.failed(NvshmemLibrary.places().missing());
      }
      int[] version = NvshmemLibrary.version();
      List<String> lacking = new ArrayList<>();
      for (NvshmemFunction function : NvshmemFunction.values()) {
        if (!function.optional() && !NvshmemLibrary.has(function)) {
          lacking.add(function.symbol());
        }
      }
      String problem = judge(NvshmemLibrary.name(), version, lacking);
      if (problem.isEmpty()) {
        problem = CudaDriver.find().problem();
      }
      return problem.isEmpty()
          ? BackendProbe.found(text(version), NvshmemLibrary.name(), List.of())
          : BackendProbe.failed(problem);
    }
  }

  @Override
  public String name() {
    return BackendName.NVSHMEM;
  }

  @Override
  public BackendProbe probe() {
    return Search.RESULT;
  }

  /** Why a library is unusable; empty if usable. */
  static String judge(String library, int[] version, List<String> lacking) {
    String remedy = ": install NVSHMEM 3, or set its directory in EP4J_NVSHMEM_HOME";
    if (!lacking.isEmpty()) {
      return library + " lacks " + String.join(", ", lacking) + remedy;
    }
    if (version[0] < NvshmemLayouts.OLDEST_MAJOR) {
      return library + " is NVSHMEM " + text(version) + ", too old" + remedy;
    }
    return version[0] > NvshmemLayouts.NEWEST_MAJOR
        ? library
            + " is NVSHMEM "
            + text(version)
            + ", newer than this ep4j supports: install NVSHMEM 3"
            + remedy
        : "";
  }

  private static String text(int[] version) {
    return String.join(".", Arrays.stream(version).mapToObj(String::valueOf).toList());
  }

  @Override
  public @Nullable LibraryShim shim() {
    return NvshmemLibrary.name().isEmpty() ? null : NvshmemDevice.shim();
  }

  @Override
  public String puts() {
    String problem = NvshmemDevice.problem();
    if (!problem.isEmpty()) {
      return "stores over NVLink; between nodes the proxy (" + problem + ")";
    }
    String compiler = NvshmemDevice.shim().compiler().problem();
    return "NVSHMEM's device library"
        + (compiler.isEmpty() ? "" : " (only if a cache has its shim: " + compiler + ")");
  }

  @Override
  public boolean meetsById() {
    return true;
  }

  @Override
  public byte[] uniqueId(BackendWorld world) {
    NvshmemNetwork.choose(world);
    if (NvshmemRuntime.isRunning()) {
      return new byte[0];
    }
    try (Arena arena = Arena.ofConfined()) {
      MemorySegment id = arena.allocate(NvshmemLayouts.UNIQUE_ID);
      NvshmemLayouts.markUniqueId(id);
      NvshmemException.check(NvshmemCalls.uniqueId(id.address()), NvshmemFunction.GET_UNIQUE_ID);
      return id.toArray(ValueLayout.JAVA_BYTE);
    }
  }

  @Override
  public String objection(BackendWorld world) {
    int[] two = world.sharingProcess();
    return two == null
        ? objection(world.locations(), world.participants()::number)
        : "ranks %d and %d are in one process, but NVSHMEM serves one rank per process: start a process for each rank (./ep4j launch), or use backend 'direct' or 'nccl'"
            .formatted(two[0], two[1]);
  }

  /**
   * Rejects ranks that share GPUs unevenly: NVSHMEM assumes equal teams of ranks per GPU, and
   * otherwise its start never returns.
   *
   * @param number rank at an index
   */
  static String objection(List<RankLocation> locations, IntUnaryOperator number) {
    List<String> devices = locations.stream().map(RankLocation::device).toList();
    int[] ranks =
        devices.stream().mapToInt(device -> Collections.frequency(devices, device)).toArray();
    for (int i = 1; i < ranks.length; i++) {
      if (ranks[i] != ranks[0]) {
        return "the GPU of rank %d has %d of the ranks, that of rank %d has %d, but NVSHMEM needs equally many on each: start one rank per GPU, or equally many on each, or use backend 'direct'"
            .formatted(number.applyAsInt(0), ranks[0], number.applyAsInt(i), ranks[i]);
      }
    }
    return "";
  }

  @Override
  public void prepare(BackendWorld world, byte[] id) {
    NvshmemRuntime.prepare(world, id);
  }

  @Override
  public Backend open(BackendWorld world, byte[] id) {
    NvshmemRuntime.start(world, id);
    return new NvshmemBackend(world);
  }
}
