package org.ep4j.cli.doctor;

import java.util.ArrayList;
import java.util.List;
import java.util.ServiceLoader;
import org.ep4j.config.EngineName;
import org.ep4j.engine.EngineProvider;

/** The engines on the module path, and whether they run on this machine. */
public final class EngineFacts {
  private static final String TOPIC = "Engines";

  private EngineFacts() {}

  /** The processor instructions that an engine uses here; empty if it has no choice. */
  public static String instructions(String engine) {
    return ServiceLoader.load(EngineProvider.class).stream()
        .map(ServiceLoader.Provider::get)
        .filter(provider -> provider.name().equals(engine))
        .findFirst()
        .map(EngineProvider::instructions)
        .orElse("");
  }

  static List<Finding> look() {
    List<Finding> findings = new ArrayList<>();
    for (EngineProvider provider : ServiceLoader.load(EngineProvider.class)) {
      String problem = provider.unavailableBecause();
      findings.add(
          problem.isEmpty()
              ? Finding.found(TOPIC, provider.name(), "available", "--device " + provider.name())
              : Finding.missing(TOPIC, provider.name(), "cannot run here", problem));
    }
    if (findings.stream().noneMatch(finding -> finding.name().equals(EngineName.CUDA))) {
      findings.add(
          Finding.missing(
              TOPIC,
              EngineName.CUDA,
              "not on the module path",
              "the module ep4j-cuda is not installed; --device auto takes the host engine"));
    }
    return findings;
  }
}
