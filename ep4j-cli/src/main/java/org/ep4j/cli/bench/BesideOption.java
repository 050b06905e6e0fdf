package org.ep4j.cli.bench;

import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.ParameterException;

/** What runs on the same GPUs meanwhile. */
final class BesideOption {
  @Option(
      names = "--beside-nccl",
      description = "Measure again while NCCL runs all-reduces on the same GPUs (cuda).")
  private boolean wanted;

  @Option(
      names = "--against-nccl",
      description =
          "Let NCCL's grouped sends and receives move the bytes between nodes too (cuda, ht, with"
              + " --nodes).")
  private boolean against;

  BesideOption() {}

  /** Whether NCCL exchanges the same bytes. */
  boolean against(CommandSpec spec, boolean possible) {
    if (against && !possible) {
      throw new ParameterException(
          spec.commandLine(),
          "--against-nccl is for ht between nodes of GPUs: leave it out, or use --device cuda and"
              + " --nodes");
    }
    return against;
  }

  /** Whether NCCL does; refused where there is no GPU. */
  boolean wanted(CommandSpec spec, String engine) {
    if (wanted && !BenchSettings.onDevice(engine)) {
      throw new ParameterException(
          spec.commandLine(), "--beside-nccl is for GPUs: leave it out, or use --device cuda");
    }
    return wanted;
  }
}
