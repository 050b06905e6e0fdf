package org.ep4j.cli.bench;

import org.ep4j.cli.CommandSpecs;
import org.ep4j.cli.HelpGroup;
import org.ep4j.cli.launch.EngineOptions;
import org.ep4j.error.ErrorCode;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;

/** Options for work of NCCL on the same GPUs. */
@HelpGroup("NCCL beside it")
final class NcclOptions {
  @Option(
      names = "--with-nccl-traffic",
      description = "Measure again while NCCL runs all-reduces on the same GPUs (cuda).")
  private boolean background;

  @Option(
      names = "--against-nccl",
      description =
          "Time grouped sends and receives of NCCL for the bytes between nodes, too (cuda, ht,"
              + " with --nodes).")
  private boolean against;

  NcclOptions() {}

  /** The choice; refuses background traffic without a GPU. */
  NcclChoice choice(CommandSpec spec, String engine) {
    if (background && !EngineOptions.onDevice(engine)) {
      throw CommandSpecs.usage(
          spec,
          ErrorCode.INAPPLICABLE_OPTION,
          "--with-nccl-traffic needs GPUs: leave it out, or use --device cuda");
    }
    return new NcclChoice(background, against);
  }

  /** Refuses an exchange without traffic between nodes of GPUs. */
  void check(CommandSpec spec, boolean nodesOfGpus) {
    if (against && !nodesOfGpus) {
      throw CommandSpecs.usage(
          spec,
          ErrorCode.INAPPLICABLE_OPTION,
          "--against-nccl is for ht between nodes of GPUs: leave it out, or use --device cuda and"
              + " --nodes");
    }
  }
}
