package org.ep4j.cli.bench;

import org.ep4j.LowLatencyCombineOptions;
import org.ep4j.LowLatencyDispatch;
import org.ep4j.LowLatencyDispatchOptions;
import org.ep4j.RankMajorDispatch;
import org.ep4j.tensor.Tensor;
import org.ep4j.verify.LowLatencyOracle;
import org.ep4j.verify.RankMajorOracle;
import org.ep4j.verify.Rows;
import org.ep4j.verify.WorldRouting;
import org.jspecify.annotations.Nullable;

/** Expected results of low latency in the layout of the settings. */
final class LatencyOracle {
  private final WorldRouting world;
  private final LowLatencyOracle byExperts;
  private final @Nullable RankMajorOracle byRanks;

  LatencyOracle(BenchSettings settings, WorldRouting world) {
    this(settings, world, new boolean[world.ranks()]);
  }

  /** Expected results while all other ranks mask {@code masked}. */
  LatencyOracle(BenchSettings settings, WorldRouting world, boolean[] masked) {
    this.world = world;
    byExperts = new LowLatencyOracle(world, settings.maxTokens(), settings.hidden(), masked);
    byRanks =
        settings.options().rankMajor()
            ? new RankMajorOracle(world, settings.maxTokens(), settings.hidden(), masked)
            : null;
  }

  /** Rows of each group of {@code rank}: per local expert or, rank-major, per source rank. */
  int[] receiveCounts(int rank) {
    return byRanks == null ? byExperts.receiveCounts(rank) : byRanks.receiveCounts(rank);
  }

  void checkDispatch(
      int rank, LowLatencyDispatch actual, Rows x, LowLatencyDispatchOptions options) {
    if (byRanks == null) {
      byExperts.checkDispatch(rank, actual, x, options);
    } else {
      byRanks.checkDispatch(rank, (RankMajorDispatch) actual, x, options);
    }
  }

  void checkCombine(int rank, Tensor actual, Rows y, LowLatencyCombineOptions options) {
    if (byRanks == null) {
      byExperts.checkCombine(rank, actual, y, world, options);
    } else {
      byRanks.checkCombine(rank, actual, y);
    }
  }
}
