package org.ep4j.engine;

import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.Arrays;
import org.ep4j.RoutingCounter;
import org.ep4j.RoutingCounts;
import org.ep4j.execution.DeviceStream;
import org.ep4j.routing.Routing;
import org.ep4j.tensor.Tensor;

/** Counts routings in host memory, in the calling thread. */
public final class HostRoutingCounter implements RoutingCounter {
  private final ThreadGuard guard = new ThreadGuard("counter");
  private final RoutingCounterChecks checks;
  private final int[] nodeOfRank;
  private final Tally perRank;
  private final Tally perNode;
  private Tally perExpert = new Tally(0);

  public HostRoutingCounter(RoutingCounterChecks checks) {
    this.checks = checks;
    nodeOfRank = checks.nodeOfRank();
    perRank = new Tally(checks.ranks());
    perNode = new Tally(checks.nodes());
  }

  /** Counts tokens, each once. */
  private static final class Tally {
    private final int[] counts;

    /** The last token that was counted, + 1. */
    private final int[] last;

    Tally(int length) {
      counts = new int[length];
      last = new int[length];
    }

    void clear() {
      Arrays.fill(counts, 0);
      Arrays.fill(last, 0);
    }

    /** Whether the token is counted for the first time; tokens ascend. */
    boolean add(int index, int token) {
      boolean first = last[index] <= token;
      if (first) {
        last[index] = token + 1;
        counts[index]++;
      }
      return first;
    }

    void copyTo(Tensor tensor) {
      MemorySegment.copy(
          counts, 0, tensor.segment(), ValueLayout.JAVA_INT_UNALIGNED, 0, counts.length);
    }
  }

  @Override
  public void count(Routing routing, RoutingCounts counts, DeviceStream stream) {
    Arguments.noStream(stream);
    count(routing, counts);
  }

  @Override
  public void count(Routing routing, RoutingCounts counts) {
    guard.enter();
    try {
      countAlone(routing, counts);
    } finally {
      guard.leave();
    }
  }

  private void countAlone(Routing routing, RoutingCounts counts) {
    int experts = checks.experts(routing, counts);
    Tensor ids = routing.topkIdx();
    Arguments.onHost("topkIdx", ids);
    Arguments.writableOnHost("tokensPerRank", counts.tokensPerRank());
    Arguments.writableOnHost("tokensPerNode", counts.tokensPerNode());
    Arguments.writableOnHost("tokensPerExpert", counts.tokensPerExpert());
    Arguments.writableOnHost("tokenInRank", counts.tokenInRank());
    if (perExpert.counts.length != experts) {
      perExpert = new Tally(experts);
    }
    perExpert.clear();
    perRank.clear();
    perNode.clear();
    mark(ids, experts, counts.tokenInRank().segment());
    perRank.copyTo(counts.tokensPerRank());
    perNode.copyTo(counts.tokensPerNode());
    perExpert.copyTo(counts.tokensPerExpert());
  }

  private void mark(Tensor ids, int experts, MemorySegment inRank) {
    int ranks = nodeOfRank.length;
    int each = experts / ranks;
    int topK = Math.toIntExact(ids.size(1));
    int tokens = Math.toIntExact(ids.size(0));
    inRank.fill((byte) 0);
    for (int token = 0; token < tokens; token++) {
      for (int k = 0; k < topK; k++) {
        long id = ids.getLong((long) token * topK + k);
        if (id >= 0 && id < experts && perExpert.add((int) id, token)) {
          int rank = (int) id / each;
          if (perRank.add(rank, token)) {
            inRank.set(ValueLayout.JAVA_BYTE, (long) token * ranks + rank, (byte) 1);
            perNode.add(nodeOfRank[rank], token);
          }
        }
      }
    }
  }

  @Override
  public void close() {
    guard.enterForClose();
    guard.shut();
    guard.leave();
  }
}
