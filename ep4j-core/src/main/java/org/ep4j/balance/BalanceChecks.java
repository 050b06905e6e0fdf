package org.ep4j.balance;

import org.ep4j.error.ErrorCode;
import org.ep4j.error.InvalidArgumentException;

/** What can be balanced. */
final class BalanceChecks {
  private BalanceChecks() {}

  static void check(long[] load, int ranks, int replicas) {
    checkLoad(load);
    require(ranks >= 1, "ranks", ranks, ">= 1", "pass the number of ranks");
    long slots = (long) load.length + replicas;
    long max = Math.min(Balancer.MAX_SLOTS, (long) load.length * ranks) - load.length;
    require(
        replicas >= 0 && replicas <= max,
        "replicas",
        replicas,
        "0.."
            + max
            + ", at most one replica of each of the "
            + load.length
            + " experts on each of the "
            + ranks
            + " ranks, "
            + Balancer.MAX_SLOTS
            + " in all",
        "ask for another number");
    require(
        ranks <= slots,
        "ranks",
        ranks,
        "at most " + slots + ", the experts and their replicas",
        "ask for " + (ranks - load.length) + " replicas or more, or use fewer ranks");
  }

  private static void checkLoad(long[] load) {
    if (load.length < 1 || load.length > Balancer.MAX_SLOTS) {
      throw badLoad(
          "load",
          load.length + " experts",
          "1.." + Balancer.MAX_SLOTS + " experts",
          "pass the load of each expert");
    }
    long sum = 0;
    for (int e = 0; e < load.length; e++) {
      if (load[e] < 0) {
        throw badLoad("load[" + e + "]", String.valueOf(load[e]), ">= 0", "count tokens");
      }
      sum += load[e];
      if (sum < 0) {
        throw badLoad(
            "load",
            "more than " + Long.MAX_VALUE + " tokens",
            "a sum that a long can hold",
            "divide all loads by the same number");
      }
    }
    if (sum == 0) {
      throw badLoad("load", "0 for all experts", "positive for one", "count some operations first");
    }
  }

  static void checkGroups(int experts, int ranks, int replicas, int groups, int ranksPerNode) {
    require(
        ranksPerNode >= 1 && ranks % ranksPerNode == 0,
        "ranksPerNode",
        ranksPerNode,
        "a divisor of the " + ranks + " ranks",
        "use whole nodes");
    int nodes = ranks / ranksPerNode;
    require(
        groups >= 1 && experts % groups == 0 && groups % nodes == 0,
        "groups",
        groups,
        "a divisor of the " + experts + " experts and a multiple of the " + nodes + " nodes",
        "balance without groups, or over another number of nodes");
    require(
        (experts + replicas) % ranks == 0
            && replicas / nodes <= experts / nodes * (ranksPerNode - 1),
        "replicas",
        replicas,
        "such that all "
            + ranks
            + " ranks have equal slots, at most one replica of an expert on each rank of its node",
        "ask for another number, or balance without groups");
  }

  private static void require(
      boolean holds, String argument, int value, String limit, String remedy) {
    if (!holds) {
      throw new InvalidArgumentException(
          ErrorCode.EXPERT_REPLICAS, argument, String.valueOf(value), limit, remedy);
    }
  }

  private static InvalidArgumentException badLoad(
      String argument, String value, String limit, String remedy) {
    return new InvalidArgumentException(ErrorCode.EXPERT_LOAD, argument, value, limit, remedy);
  }
}
