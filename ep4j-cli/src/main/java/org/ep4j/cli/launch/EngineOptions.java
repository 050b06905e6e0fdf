package org.ep4j.cli.launch;

import java.util.List;
import java.util.Locale;
import org.ep4j.cuda.driver.CudaDevice;
import org.jspecify.annotations.Nullable;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.ParameterException;

/** Options that say which engine works, and how its GPUs reach each other. */
public final class EngineOptions {
  private static final List<String> ENGINES = List.of("auto", "host", "cuda");

  @Option(
      names = "--device",
      defaultValue = "auto",
      paramLabel = "auto|host|cuda",
      description = "The engine; default ${DEFAULT-VALUE}: the best that can run here.")
  private String device = "auto";

  @Option(
      names = "--backend",
      split = ",",
      paramLabel = "NAME",
      description =
          "How GPUs reach each other: direct, nccl, nvshmem or auto; default auto: what EP4J_BACKEND"
              + " or DEEP_EP_BACKEND says, else direct. bench takes several and compares them.")
  private @Nullable List<String> backends;

  /** Used by picocli. */
  public EngineOptions() {}

  /** The engine. */
  public String device(CommandSpec spec) {
    String wanted = device.toLowerCase(Locale.ROOT);
    if (!ENGINES.contains(wanted)) {
      throw usage(
          spec, "--device is %s; it must be %s".formatted(device, String.join(", ", ENGINES)));
    }
    if (backends != null && wanted.equals("host")) {
      throw usage(spec, "--backend is between GPUs, and --device host has none: leave one out");
    }
    return wanted;
  }

  /** Whether the engine will be that of GPUs. */
  public boolean onDevice(CommandSpec spec) {
    return onDevice(device(spec));
  }

  /** The same for an engine that {@link #device} has accepted. */
  public static boolean onDevice(String engine) {
    return engine.equals("cuda") || (engine.equals("auto") && CudaDevice.count() > 0);
  }

  /** The backends, at least one. */
  public List<String> backends() {
    List<String> given = backends;
    return given == null
        ? List.of("auto")
        : given.stream().map(name -> name.strip().toLowerCase(Locale.ROOT)).toList();
  }

  /** The only backend. */
  public String backend(CommandSpec spec) {
    if (backends().size() > 1) {
      throw usage(spec, "--backend takes one name here; bench compares several");
    }
    return backends().getFirst();
  }

  private static ParameterException usage(CommandSpec spec, String message) {
    return new ParameterException(spec.commandLine(), message);
  }
}
