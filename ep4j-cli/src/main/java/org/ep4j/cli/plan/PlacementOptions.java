package org.ep4j.cli.plan;

import java.nio.file.Path;
import org.ep4j.cli.CommandSpecs;
import org.ep4j.cli.text.OutputFile;
import org.ep4j.error.ErrorCode;
import org.ep4j.plan.ExpertLoads;
import org.ep4j.plan.PlanRequest;
import org.ep4j.routing.ExpertPlacement;
import org.ep4j.routing.ReplicatedPlacement;
import org.jspecify.annotations.Nullable;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;

/** Options for the ranks of experts and of their replicas. */
final class PlacementOptions {
  /** Replicas by default: an eighth of the experts. */
  private static final int SHARE = 8;

  @Option(
      names = "--placement",
      paramLabel = "FILE",
      description =
          "Experts and replicas lie as this JSON file says, as --placement-out writes it. Also"
              + " predicts blocks, and prints the gain.")
  private @Nullable Path file;

  @Option(
      names = "--balance",
      description =
          "Balance the load of the routing over the ranks, with replicas of the hottest experts;"
              + " with grouped:G they stay on the nodes of their group. Also predicts blocks, and"
              + " prints the gain.")
  private boolean balance;

  @Option(
      names = "--replicas",
      paramLabel = "N",
      description =
          "Replicas of --balance beyond one of each expert; default: an eighth of the experts,"
              + " rounded up to equal numbers of slots on all ranks.")
  private @Nullable Integer replicas;

  @Option(
      names = "--placement-out",
      paramLabel = "FILE",
      description = "Write the placement of --balance as JSON. - is standard output.")
  private @Nullable Path output;

  PlacementOptions() {}

  /** Refuses options that do not fit together. */
  void check(CommandSpec spec) {
    CommandSpecs.check(
        spec,
        file == null || !balance,
        ErrorCode.CONFLICTING_OPTIONS,
        "--placement and --balance exclude each other: name one");
    CommandSpecs.check(
        spec,
        balance || (replicas == null && output == null),
        ErrorCode.CONFLICTING_OPTIONS,
        (replicas == null ? "--placement-out" : "--replicas") + " needs --balance: add it");
    if (output != null) {
      String problem = new OutputFile(output).problem();
      CommandSpecs.check(
          spec,
          problem.isEmpty(),
          ErrorCode.BAD_JSON_FILE,
          "--placement-out " + output + ": " + problem);
    }
  }

  /** The placement of {@code --placement}, or null. */
  @Nullable ReplicatedPlacement read() {
    return file == null ? null : PlacementFile.read(file);
  }

  boolean isBalance() {
    return balance;
  }

  /** The file for the placement, or null. */
  @Nullable OutputFile output() {
    return output == null ? null : new OutputFile(output);
  }

  /** Balances the load of a request over its ranks. */
  ReplicatedPlacement balanced(PlanRequest request) {
    long[] load = ExpertLoads.known(request);
    int ranks = request.ranks();
    boolean grouped = request.routing().groups() > 0 && request.nodes() > 1;
    int max = grouped ? request.ranksPerNode() : ranks;
    int count = replicas == null ? usual(load.length, ranks, max) : replicas;
    return grouped
        ? ExpertPlacement.balance(load, ranks, count, request.nodes(), request.ranksPerNode())
        : ExpertPlacement.balance(load, ranks, count);
  }

  /**
   * @param max replicas that an expert can have: the ranks on which its replicas may lie
   */
  private static int usual(int experts, int ranks, int max) {
    int slots = experts + (experts + SHARE - 1) / SHARE;
    int equal = (slots + ranks - 1) / ranks * ranks;
    return (int) Math.min(equal - experts, (long) experts * (max - 1));
  }
}
