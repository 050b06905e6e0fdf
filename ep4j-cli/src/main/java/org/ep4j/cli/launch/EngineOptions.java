package org.ep4j.cli.launch;

import java.util.List;
import java.util.Locale;
import org.ep4j.cli.CommandSpecs;
import org.ep4j.cli.HelpGroup;
import org.ep4j.config.BackendName;
import org.ep4j.config.EngineName;
import org.ep4j.cuda.driver.CudaDevice;
import org.ep4j.error.ErrorCode;
import org.jspecify.annotations.Nullable;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;

/** Options for the engine and the backend between its GPUs. */
@HelpGroup(HelpGroup.RANKS)
public final class EngineOptions {
  private static final List<String> ENGINES = EngineName.ALL;

  @Option(
      names = "--device",
      defaultValue = EngineName.AUTO,
      paramLabel = "auto|host|cuda",
      description = "The engine; default ${DEFAULT-VALUE}: the best one for this machine.")
  private String device = EngineName.AUTO;

  @Option(
      names = "--backend",
      split = ",",
      paramLabel = "NAME",
      description =
          "Backend between GPUs: direct, nccl, nvshmem or auto; default auto: the value of"
              + " EP4J_BACKEND or DEEP_EP_BACKEND, else direct. bench compares several.")
  private @Nullable List<String> backends;

  /** Used by picocli. */
  public EngineOptions() {}

  /** The engine. */
  public String device(CommandSpec spec) {
    String wanted = device.toLowerCase(Locale.ROOT);
    if (!ENGINES.contains(wanted)) {
      throw CommandSpecs.usage(
          spec,
          ErrorCode.BAD_OPTION_VALUE,
          CommandSpecs.badValue("--device", device, String.join(", ", ENGINES)));
    }
    if (backends != null && wanted.equals(EngineName.HOST)) {
      throw CommandSpecs.usage(
          spec,
          ErrorCode.CONFLICTING_OPTIONS,
          "--backend needs GPUs, and --device host uses none: leave one out");
    }
    if (backends != null && wanted.equals(EngineName.AUTO) && !onDevice(wanted)) {
      throw CommandSpecs.usage(
          spec,
          ErrorCode.INAPPLICABLE_OPTION,
          "--backend needs GPUs, and this machine has none that ep4j can use: leave it out, or see"
              + " ep4j doctor");
    }
    return wanted;
  }

  /** Whether the engine is the CUDA engine. */
  public boolean onDevice(CommandSpec spec) {
    return onDevice(device(spec));
  }

  /** The same for a result of {@link #device}. */
  public static boolean onDevice(String engine) {
    return engine.equals(EngineName.CUDA)
        || (engine.equals(EngineName.AUTO) && CudaDevice.count() > 0);
  }

  /** The backends, at least one. */
  public List<String> backends() {
    List<String> given = backends;
    return given == null
        ? List.of(BackendName.AUTO)
        : given.stream().map(name -> name.strip().toLowerCase(Locale.ROOT)).toList();
  }

  /** The only backend. */
  public String backend(CommandSpec spec) {
    if (backends().size() > 1) {
      throw CommandSpecs.usage(
          spec,
          ErrorCode.BAD_OPTION_VALUE,
          CommandSpecs.badValue(
              "--backend",
              String.join(",", backends()),
              "one name in this command: bench compares several"));
    }
    return backends().getFirst();
  }
}
