package org.ep4j.engine;

import java.util.Optional;
import java.util.ServiceLoader;
import org.ep4j.BufferSizes;
import org.ep4j.ExpertBuffer;
import org.ep4j.RoutingCounter;
import org.ep4j.config.BufferConfig;
import org.ep4j.config.EngineName;
import org.ep4j.engine.world.AgreedStep;
import org.ep4j.engine.world.SurvivorAgreement;
import org.ep4j.error.EngineUnavailableException;
import org.ep4j.error.ErrorCode;
import org.ep4j.error.IllegalUseException;
import org.ep4j.error.InvalidArgumentException;
import org.ep4j.group.Group;
import org.ep4j.observe.OpenEvent;
import org.ep4j.routing.ExpertPlacement;
import org.jspecify.annotations.Nullable;

/** Chooses the engine of a buffer. */
public final class Engines {
  /** Purpose of the collectives that open a buffer. */
  public static final String OPENING = "opening a buffer";

  private Engines() {}

  /** Opens a buffer with the engine that {@code config} asks for; collective. */
  public static ExpertBuffer open(Group group, BufferConfig config) {
    OpenEvent event = new OpenEvent();
    event.begin();
    ExpertBuffer buffer = group.together(OPENING, () -> openTogether(group, config));
    event.ended(buffer, false);
    return buffer;
  }

  private static ExpertBuffer openTogether(Group group, BufferConfig config) {
    Choice choice =
        AgreedStep.run(
            group,
            config.timeout(),
            () -> new Choice(choose(config), settle(config, group.size())),
            _ -> {});
    return choice.engine.open(group, choice.settled);
  }

  private record Choice(EngineProvider engine, BufferConfig settled) {}

  /** Opens the buffer of a rank that rejoins; collective with readmit() on the other ranks. */
  public static ExpertBuffer rejoin(Group group, BufferConfig config) {
    if (group.inProcess()) {
      throw new IllegalUseException(
          ErrorCode.REJOIN_OF_THREADS,
          "rejoin: the ranks are threads of one process; only ranks that are processes can"
              + " rejoin: open a new buffer on all ranks");
    }
    OpenEvent event = new OpenEvent();
    event.begin();
    ExpertBuffer buffer =
        group.together(
            SurvivorAgreement.RESTARTING,
            () -> {
              Choice choice =
                  SurvivorAgreement.prepared(
                      group,
                      config.timeout(),
                      () -> new Choice(choose(config), settle(config, group.size())));
              return choice.engine.rejoin(group, choice.settled);
            });
    event.ended(buffer, true);
    return buffer;
  }

  /** Memory that a buffer would reserve on each of {@code ranks} ranks. */
  public static BufferSizes sizes(BufferConfig config, int ranks) {
    return choose(config).sizes(settle(config, ranks));
  }

  /** A counter for tensors of a device. */
  public static RoutingCounter routingCounter(int device, RoutingCounterChecks checks) {
    StringBuilder seen = new StringBuilder();
    for (EngineProvider provider : providers()) {
      Optional<RoutingCounter> counter = provider.routingCounter(device, checks);
      if (counter.isPresent()) {
        return counter.get();
      }
      seen.append("; ").append(provider.name()).append(": ");
      String problem = provider.unavailableBecause();
      seen.append(problem.isEmpty() ? "has no devices" : problem);
    }
    throw new EngineUnavailableException(
        ErrorCode.ENGINE_UNAVAILABLE,
        "no engine counts routings on device " + device + seen + ": add ep4j-cuda");
  }

  private static ServiceLoader<EngineProvider> providers() {
    return ServiceLoader.load(EngineProvider.class, Engines.class.getClassLoader());
  }

  /** See {@link ExpertBuffer#warmUp()}. */
  public static void warmUp(ExpertBuffer buffer) {
    WarmUp.run(buffer);
  }

  private static BufferConfig settle(BufferConfig config, int ranks) {
    ExpertPlacement placement = config.placement();
    if (placement == null) {
      return config.toBuilder().placement(ExpertPlacement.blocks(config.experts(), ranks)).build();
    }
    if (placement.ranks() != ranks) {
      throw new InvalidArgumentException(
          ErrorCode.PLACEMENT_OF_OTHER_GROUP,
          "placement",
          placement.toString(),
          "a table for the " + ranks + " ranks of the group",
          "build it with the size of the group");
    }
    return config;
  }

  private static EngineProvider choose(BufferConfig config) {
    String wanted = config.engine();
    @Nullable EngineProvider best = null;
    StringBuilder seen = new StringBuilder();
    for (EngineProvider provider : providers()) {
      String problem = provider.unavailableBecause();
      if (problem.isEmpty() && !wanted.equals(provider.name())) {
        problem = provider.lacks(config);
      }
      seen.append("; ").append(provider.name()).append(": ");
      seen.append(problem.isEmpty() ? "available" : problem);
      if (wanted.equals(provider.name())) {
        if (!problem.isEmpty()) {
          throw new EngineUnavailableException(
              ErrorCode.ENGINE_UNAVAILABLE,
              "engine '"
                  + wanted
                  + "' cannot run here: "
                  + problem
                  + "; engine 'host' works on every machine");
        }
        return provider;
      }
      if (problem.isEmpty() && (best == null || provider.priority() > best.priority())) {
        best = provider;
      }
    }
    if (!wanted.equals(EngineName.AUTO) || best == null) {
      throw new EngineUnavailableException(
          ErrorCode.ENGINE_UNAVAILABLE,
          "engine '"
              + wanted
              + "' is not on the module path or class path"
              + (wanted.equals(EngineName.CUDA) ? " (add ep4j-cuda)" : "")
              + "; known: auto"
              + seen);
    }
    return best;
  }
}
