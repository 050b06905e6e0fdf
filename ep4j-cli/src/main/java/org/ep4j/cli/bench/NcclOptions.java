package org.ep4j.cli.bench;

import org.ep4j.cli.launch.EngineOptions;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.ParameterException;

/** What NCCL does on the same GPUs. */
final class NcclOptions {
  @Option(
      names = "--with-nccl-traffic",
      description = "Measure again while NCCL runs all-reduces on the same GPUs (cuda).")
  private boolean background;

  @Option(
      names = "--against-nccl",
      description =
          "Let NCCL's grouped sends and receives move the bytes between nodes too (cuda, ht, with"
              + " --nodes).")
  private boolean against;

  NcclOptions() {}

  /** What NCCL does; refused where there is no GPU. */
  NcclChoice choice(CommandSpec spec, String engine) {
    if (background && !EngineOptions.onDevice(engine)) {
      throw new ParameterException(
          spec.commandLine(),
          "--with-nccl-traffic is for GPUs: leave it out, or use --device cuda");
    }
    return new NcclChoice(background, against);
  }

  /** Refuses an exchange where nothing goes between nodes of GPUs. */
  void check(CommandSpec spec, boolean nodesOfGpus) {
    if (against && !nodesOfGpus) {
      throw new ParameterException(
          spec.commandLine(),
          "--against-nccl is for ht between nodes of GPUs: leave it out, or use --device cuda and"
              + " --nodes");
    }
  }
}
