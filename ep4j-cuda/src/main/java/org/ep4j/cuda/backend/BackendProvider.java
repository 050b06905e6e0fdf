package org.ep4j.cuda.backend;

import org.ep4j.cuda.jit.LibraryShim;
import org.jspecify.annotations.Nullable;

/**
 * A backend, found through {@link java.util.ServiceLoader}. Implementations are stateless; none of
 * their methods but {@link #probe} and {@link #shim} is called before that found no problem.
 */
public interface BackendProvider {
  /** Name as in {@link org.ep4j.BufferConfig#backend()}. */
  String name();

  /** Looks for what the backend needs, and loads its library. Does not throw. */
  BackendProbe probe();

  /** Whether the ranks meet with a unique id that the first of them makes. */
  default boolean meetsById() {
    return false;
  }

  /** Makes that id; called on the first rank only. */
  default byte[] uniqueId() {
    return new byte[0];
  }

  /**
   * What these ranks have that the backend cannot serve; empty if it can. Collective: all ranks
   * must come to the same answer.
   */
  default String objection(BackendWorld world) {
    return "";
  }

  /**
   * Device functions of the library that kernels are linked to, for those who compile ahead of
   * time; null if it has none, or its version is not known here. Needs no device.
   */
  default @Nullable LibraryShim shim() {
    return null;
  }

  /** How kernels put with this backend here, for people; and what is missing for better ways. */
  default String puts() {
    return "stores over NVLink; between nodes the proxy";
  }

  /**
   * Opens the backend; collective. The device of the world is current.
   *
   * @param id of the first rank; empty where there is none
   */
  Backend open(BackendWorld world, byte[] id);
}
