package org.ep4j.cuda.backend;

import org.ep4j.cuda.jit.LibraryShim;
import org.jspecify.annotations.Nullable;

/**
 * A backend, found through {@link java.util.ServiceLoader}. Implementations are stateless. Only
 * {@link #probe} and {@link #shim} may be called before the probe has found no problem.
 */
public interface BackendProvider {
  /** Name as in {@link org.ep4j.config.BufferConfig#backend()}. */
  String name();

  /** Searches for the requirements of the backend and loads its library. Does not throw. */
  BackendProbe probe();

  /** Whether the ranks connect with a unique id that the first rank creates. */
  default boolean meetsById() {
    return false;
  }

  /**
   * Creates the unique id; called on the first rank only, before {@link #open}.
   *
   * @param world the ranks that will open the backend
   */
  default byte[] uniqueId(BackendWorld world) {
    return new byte[0];
  }

  /**
   * The reason why the backend cannot serve these ranks; empty if it can. Collective: all ranks
   * must return the same answer.
   */
  default String objection(BackendWorld world) {
    return "";
  }

  /**
   * Device functions of the library that kernels are linked to, for compilation ahead of time; null
   * if it has none or its version is unknown here. Needs no device.
   */
  default @Nullable LibraryShim shim() {
    return null;
  }

  /**
   * How kernels put with this backend here, and what is missing for faster transports; for display.
   */
  default String puts() {
    return "stores over NVLink; between nodes the proxy";
  }

  /**
   * Does what {@link #open} does without other ranks; called only where ranks {@linkplain
   * #meetsById meet by an id}. If one rank throws, no rank opens the backend: the others would wait
   * for that rank inside the library.
   *
   * @param id as for {@link #open}
   */
  default void prepare(BackendWorld world, byte[] id) {}

  /**
   * Opens the backend; collective. The device of the world is current.
   *
   * @param id id of the first rank; empty without ids
   */
  Backend open(BackendWorld world, byte[] id);
}
