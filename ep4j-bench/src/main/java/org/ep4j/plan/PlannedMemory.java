package org.ep4j.plan;

import java.util.ServiceLoader;
import java.util.stream.IntStream;
import org.ep4j.BufferSizes;
import org.ep4j.config.BufferConfig;
import org.ep4j.config.EngineName;
import org.ep4j.engine.EngineProvider;
import org.ep4j.error.EngineUnavailableException;
import org.ep4j.error.ErrorCode;
import org.ep4j.routing.ExpertPlacement;

/** Memory of a buffer of the CUDA engine. Needs no GPU: the engine only computes its layout. */
public final class PlannedMemory {
  private PlannedMemory() {}

  /**
   * What {@code ExpertBuffer.sizes} returns on a machine with GPUs.
   *
   * @throws EngineUnavailableException if the module of the CUDA engine is missing
   */
  public static BufferSizes of(PlanRequest request) {
    BufferConfig.Builder config =
        BufferConfig.builder()
            .hidden(request.hidden())
            .topK(request.topK())
            .placement(request.placed().placement())
            .ranksPerNode(request.ranksPerNode())
            .engine(EngineName.CUDA)
            .backend(request.backend());
    switch (request.kind()) {
      case HT -> config.highThroughput(request.tokens());
      case LL -> config.lowLatency(request.tokens());
    }
    // Nodes are equal: the rank with the most experts takes the most. The sizes of a rank take time
    // that grows with the number of ranks, those of all ranks minutes.
    return engine().sizes(config.build(), busiest(request.placed().placement()));
  }

  private static int busiest(ExpertPlacement placement) {
    return IntStream.range(0, placement.ranks())
        .filter(rank -> placement.localExperts(rank) == placement.maxLocalExperts())
        .findFirst()
        .orElseThrow();
  }

  static EngineProvider engine() {
    return ServiceLoader.load(EngineProvider.class, PlannedMemory.class.getClassLoader()).stream()
        .map(ServiceLoader.Provider::get)
        .filter(provider -> provider.name().equals(EngineName.CUDA))
        .findFirst()
        .orElseThrow(
            () ->
                new EngineUnavailableException(
                    ErrorCode.ENGINE_UNAVAILABLE,
                    "engine 'cuda' is not on the module path or class path: add ep4j-cuda"));
  }
}
