package org.ep4j.engine;

import java.util.Arrays;
import org.ep4j.RoutingCounts;
import org.ep4j.error.ErrorCode;
import org.ep4j.routing.Routing;
import org.ep4j.tensor.DType;
import org.ep4j.tensor.Tensor;

/** Ranks and nodes of a {@link org.ep4j.RoutingCounter}, and what it requires of arguments. */
public final class RoutingCounterChecks {
  private final int[] nodeOfRank;

  /** Requires ranks of a node in a row. */
  public RoutingCounterChecks(int[] nodeOfRank) {
    int last = 0;
    for (int node : nodeOfRank) {
      if (node != last && (node != last + 1 || nodeOfRank[0] != 0)) {
        throw wrongNodes(nodeOfRank);
      }
      last = node;
    }
    if (nodeOfRank.length == 0) {
      throw wrongNodes(nodeOfRank);
    }
    this.nodeOfRank = nodeOfRank.clone();
  }

  private static RuntimeException wrongNodes(int[] nodeOfRank) {
    return Arguments.invalid(
        ErrorCode.INVALID_ARGUMENT,
        "nodeOfRank",
        Arrays.toString(nodeOfRank),
        "0, then the number before or one more, for at least one rank",
        "number ranks by node, and nodes from 0");
  }

  /** The node of each rank. */
  public int[] nodeOfRank() {
    return nodeOfRank.clone();
  }

  /** Number of ranks. */
  public int ranks() {
    return nodeOfRank.length;
  }

  /** Number of nodes. */
  public int nodes() {
    return nodeOfRank[nodeOfRank.length - 1] + 1;
  }

  /** Requires shapes and types that fit together; returns the number of experts. */
  public int experts(Routing routing, RoutingCounts counts) {
    Tensor perExpert = counts.tokensPerExpert();
    int experts = perExpert.dimensions() == 1 ? (int) Math.min(perExpert.size(0), 1 << 30) : 0;
    if (perExpert.dtype() != DType.INT32 || experts < 1 || experts % ranks() != 0) {
      throw Arguments.invalid(
          ErrorCode.WRONG_TENSOR,
          "tokensPerExpert",
          perExpert,
          DType.INT32 + "[experts], a multiple of " + ranks() + " (ranks)",
          "pass a tensor of that shape");
    }
    Arguments.shape("tokensPerRank", counts.tokensPerRank(), DType.INT32, ranks());
    Arguments.shape("tokensPerNode", counts.tokensPerNode(), DType.INT32, nodes());
    long tokens = routing.topkIdx().size(0);
    Arguments.shape("tokenInRank", counts.tokenInRank(), DType.UINT8, tokens, ranks());
    if (tokens > Integer.MAX_VALUE) {
      throw Arguments.invalid(
          ErrorCode.TOO_MANY_TOKENS,
          "topkIdx",
          tokens + " tokens",
          "at most " + Integer.MAX_VALUE,
          "split the batch");
    }
    return experts;
  }
}
