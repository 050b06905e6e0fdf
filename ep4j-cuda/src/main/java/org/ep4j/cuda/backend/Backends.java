package org.ep4j.cuda.backend;

import java.lang.System.Logger.Level;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.Objects;
import java.util.ServiceLoader;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import org.ep4j.config.BackendName;
import org.ep4j.cuda.driver.CudaDevice;
import org.ep4j.error.ConfigurationMismatchException;
import org.ep4j.error.EngineUnavailableException;
import org.ep4j.error.Ep4jException;
import org.ep4j.error.ErrorCode;
import org.ep4j.memory.Participants;
import org.jspecify.annotations.Nullable;

/**
 * Opens backends. Before any library call, the ranks exchange whether the backend is usable, its
 * version and their devices; either all of them continue or none does.
 */
public final class Backends {
  private static final System.Logger LOG = System.getLogger("org.ep4j.cuda");

  /** Backends whose advice has been logged in this process. */
  private static final Set<String> ADVISED = ConcurrentHashMap.newKeySet();

  private Backends() {}

  /** Backends on the module path, by name. */
  public static List<BackendProvider> providers() {
    List<BackendProvider> found = new ArrayList<>();
    ServiceLoader.load(BackendProvider.class, Backends.class.getClassLoader()).forEach(found::add);
    found.sort(Comparator.comparing(BackendProvider::name));
    return found;
  }

  /**
   * Opens a backend; collective.
   *
   * @param name as in {@link BackendChoice#name}
   * @throws EngineUnavailableException on all ranks if one of them cannot use it
   * @throws ConfigurationMismatchException on all ranks if their versions differ or the backend
   *     cannot serve their locations
   */
  public static Backend open(
      String name, Participants participants, CudaDevice device, Duration timeout) {
    BackendProvider provider = provider(name);
    BackendProbe probe = provider == null ? unknown(name) : provider.probe();
    if (participants.rank() == 0 && probe.usable() && ADVISED.add(name)) {
      for (String advice : probe.advice()) {
        LOG.log(Level.WARNING, "backend ''{0}'': {1}", name, advice);
      }
    }
    BackendWorld world = BackendWorld.gather(participants, device, timeout, probe);
    checkLocations(name, participants, world.locations());
    BackendProvider known = Objects.requireNonNull(provider, "an unknown backend is refused above");
    String objection = known.objection(world);
    if (!objection.isEmpty()) {
      throw new ConfigurationMismatchException(
          ErrorCode.BACKEND_REFUSES_RANKS, "backend '" + name + "': " + objection);
    }
    return known.meetsById() ? meet(known, world) : known.open(world, new byte[0]);
  }

  private static @Nullable BackendProvider provider(String name) {
    return providers().stream().filter(each -> each.name().equals(name)).findFirst().orElse(null);
  }

  private static BackendProbe unknown(String name) {
    List<String> known = providers().stream().map(BackendProvider::name).toList();
    return BackendProbe.failed(
        "no such backend; use one of: auto, "
            + String.join(", ", known)
            + (name.equals(BackendName.NCCL) || name.equals(BackendName.NVSHMEM)
                ? "; for this one add the jar of the module ep4j-" + name
                : ""));
  }

  /** The same decision on all ranks, from the data of all of them. */
  static void checkLocations(String name, Participants participants, List<RankLocation> locations) {
    for (int i = 0; i < locations.size(); i++) {
      if (!locations.get(i).problem().isEmpty()) {
        throw new EngineUnavailableException(
            ErrorCode.BACKEND_UNUSABLE,
            "backend '%s' cannot be used on rank %d: %s%s"
                .formatted(
                    name,
                    participants.number(i),
                    locations.get(i).problem(),
                    name.equals(BackendName.DIRECT)
                        ? ""
                        : "; the backend 'direct' needs no library"));
      }
    }
    for (int i = 1; i < locations.size(); i++) {
      if (!locations.get(i).version().equals(locations.getFirst().version())) {
        throw new ConfigurationMismatchException(
            ErrorCode.BACKEND_VERSIONS_DIFFER,
            "backend '%s': rank %d has version %s, rank %d has version %s: install one version on all hosts"
                .formatted(
                    name,
                    participants.number(0),
                    locations.getFirst().version(),
                    participants.number(i),
                    locations.get(i).version()));
      }
    }
  }

  /**
   * The first rank creates the id, the group distributes it, and all ranks open the backend or none
   * does.
   */
  static Backend meet(BackendProvider provider, BackendWorld world) {
    byte[] mine = {};
    String problem = "";
    if (world.participants().group().rank() == 0) {
      try {
        mine = provider.uniqueId(world);
      } catch (Ep4jException e) {
        problem = message(provider, e);
      }
    }
    world.agree(problem);
    byte[] id = world.participants().group().allGather(mine, world.timeout())[0];
    try {
      provider.prepare(world, id);
    } catch (Ep4jException e) {
      problem = message(provider, e);
    }
    world.agree(problem);
    @Nullable Backend backend = null;
    boolean all = false;
    try {
      try {
        backend = provider.open(world, id);
      } catch (Ep4jException e) {
        problem = message(provider, e);
      }
      world.agree(problem);
      all = true;
    } finally {
      if (!all && backend != null) {
        backend.close();
      }
    }
    return Objects.requireNonNull(backend, "a failed open is refused above");
  }

  private static String message(BackendProvider provider, Ep4jException e) {
    return "backend '" + provider.name() + "': " + e.getMessage();
  }
}
