package org.ep4j.engine;

import java.util.Objects;
import java.util.Optional;
import java.util.Set;
import org.ep4j.BufferSizes;
import org.ep4j.ExpertBuffer;
import org.ep4j.RoutingCounter;
import org.ep4j.config.BufferConfig;
import org.ep4j.group.Group;

/** An engine, found through {@link java.util.ServiceLoader}. Implementations are stateless. */
public interface EngineProvider {
  /** Name as in {@link BufferConfig#engine()}. */
  String name();

  /** Order of automatic choice: the available engine with the highest value wins. */
  int priority();

  /**
   * Empty if the engine can run here; otherwise what is missing, the searched places, and the
   * remedy.
   */
  String unavailableBecause();

  /**
   * The processor instructions that the inner loops use in this process, for reports of
   * measurements; empty if there is no choice of them.
   */
  default String instructions() {
    return "";
  }

  /**
   * Empty if the engine has all operations that {@code config} asks for; otherwise the missing
   * ones. Automatic choice then takes another engine.
   */
  default String lacks(BufferConfig config) {
    return "";
  }

  /**
   * Kinds of wire that buffers of this engine can use. {@link BufferConfig.Builder#wire} refuses
   * names that no engine has.
   */
  default Set<String> wires() {
    return Set.of();
  }

  /**
   * Backends that buffers of this engine can use. {@link BufferConfig.Builder#backend} refuses
   * names that no engine has.
   */
  default Set<String> backends() {
    return Set.of();
  }

  /** Memory of a buffer on a rank. {@code config} has a placement. */
  BufferSizes sizes(BufferConfig config, int rank);

  /** Memory of a buffer on the rank that takes the most. {@code config} has a placement. */
  default BufferSizes sizes(BufferConfig config) {
    BufferSizes largest = sizes(config, 0);
    int ranks = Objects.requireNonNull(config.placement(), "settled placement").ranks();
    for (int rank = 1; rank < ranks; rank++) {
      BufferSizes sizes = sizes(config, rank);
      if (sizes.totalBytes() > largest.totalBytes()) {
        largest = sizes;
      }
    }
    return largest;
  }

  /** Opens a buffer; collective. {@code config} has a placement. */
  ExpertBuffer open(Group group, BufferConfig config);

  /**
   * Opens the buffer of a rank that rejoins; collective with {@link ExpertBuffer#readmit} on the
   * other ranks. {@code config} has a placement, and the ranks are processes.
   */
  ExpertBuffer rejoin(Group group, BufferConfig config);

  /**
   * A counter for tensors of a device; empty if the engine has no devices, or cannot run here.
   *
   * @param device ordinal
   */
  default Optional<RoutingCounter> routingCounter(int device, RoutingCounterChecks checks) {
    return Optional.empty();
  }
}
