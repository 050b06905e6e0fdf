package org.ep4j.plan;

import java.util.Arrays;
import org.ep4j.routing.ReplicatedPlacement;
import org.ep4j.routing.Routing;
import org.ep4j.tensor.Tensor;
import org.ep4j.verify.RoutingGenerator;

/** The tokens that stand for those of a request: drawn with a fixed seed, or recorded. */
final class RoutedTokens {
  /** The seed of plans: the same request has the same traffic. */
  static final long SEED = 1;

  /** Tokens of all ranks together that are drawn: seconds at most. */
  private static final int MAX_DRAWN = 1 << 21;

  /** Tokens of a rank that are worth drawing. */
  private static final int ENOUGH = 8192;

  /** Receives the choices of some tokens of a rank, row-major. */
  interface Batches {
    void accept(int rank, long[] experts);
  }

  /** Receives a token. */
  interface Tokens {
    /**
     * Takes a token.
     *
     * @param source rank of the token
     * @param targets ranks of its experts, sorted, with repetitions; reused for the next token
     * @param chosen number of targets
     */
    void accept(int source, int[] targets, int chosen);
  }

  private final PlanRequest request;
  private final long seed;

  /** Number of the first drawn token of each rank. */
  private final int start;

  /** Tokens of the rank with the largest number. */
  private final int maxTokens;

  RoutedTokens(PlanRequest request, long seed) {
    this(request, seed, 0);
  }

  private RoutedTokens(PlanRequest request, long seed, int start) {
    this.request = request;
    this.seed = seed;
    this.start = start;
    maxTokens =
        switch (request.routing()) {
          case DrawnRouting _ ->
              Math.min(Math.max(request.tokens(), ENOUGH), MAX_DRAWN / request.ranks());
          case RecordedRouting recorded -> recorded.maxTokens(request.ranks());
        };
  }

  /** Tokens of the same distribution, none of which are drawn for a plan; recorded ones again. */
  static RoutedTokens apart(PlanRequest request) {
    return new RoutedTokens(request, SEED, new RoutedTokens(request, SEED).maxTokens);
  }

  /** Tokens of the request for each of these. */
  double scale() {
    return (double) request.tokens() / maxTokens;
  }

  /** Logical experts, in batches of at most the tokens of the request. */
  void forEach(Batches batches) {
    switch (request.routing()) {
      case DrawnRouting drawn -> draw(drawn, batches);
      case RecordedRouting recorded -> replay(recorded, batches);
    }
  }

  /** Physical experts: each batch chooses replicas as an operation with its tokens would. */
  void forEachPhysical(ReplicatedPlacement placement, Batches batches) {
    forEach(
        (rank, experts) -> {
          long tokens = experts.length / request.topK();
          Routing logical = Routing.of(Tensor.of(experts, tokens, request.topK()));
          batches.accept(rank, placement.physicalRouting(logical, rank).topkIdx().toLongArray());
        });
  }

  /** Each token with the ranks of its experts. */
  void forEachToken(Tokens tokens) {
    ReplicatedPlacement placement = request.placed();
    int[] targets = new int[request.topK()];
    forEachPhysical(
        placement,
        (rank, experts) -> {
          for (int first = 0; first < experts.length; first += targets.length) {
            int chosen = 0;
            for (int k = 0; k < targets.length; k++) {
              int expert = (int) experts[first + k];
              if (expert >= 0) {
                targets[chosen++] = placement.placement().rankOf(expert);
              }
            }
            Arrays.sort(targets, 0, chosen);
            tokens.accept(rank, targets, chosen);
          }
        });
  }

  private void draw(DrawnRouting routing, Batches batches) {
    int chosen = request.chosenNodes();
    boolean all = chosen == request.nodes();
    RoutingGenerator generator =
        new RoutingGenerator(
            routing.kind(),
            seed,
            request.experts(),
            request.topK(),
            all ? 1 : request.nodes(),
            all ? 1 : chosen);
    long[] token = new long[request.topK()];
    float[] weights = new float[request.topK()];
    for (int rank = 0; rank < request.ranks(); rank++) {
      for (int first = 0; first < maxTokens; first += batch()) {
        int tokens = Math.min(batch(), maxTokens - first);
        long[] experts = new long[tokens * token.length];
        for (int t = 0; t < tokens; t++) {
          generator.draw(rank, start + first + t, token, weights);
          System.arraycopy(token, 0, experts, t * token.length, token.length);
        }
        batches.accept(rank, experts);
      }
    }
  }

  private void replay(RecordedRouting routing, Batches batches) {
    int ids = batch() * request.topK();
    for (int rank = 0; rank < request.ranks(); rank++) {
      int[] own = routing.ofRank(rank, request.ranks());
      for (int first = 0; first < own.length; first += ids) {
        long[] experts = new long[Math.min(ids, own.length - first)];
        for (int i = 0; i < experts.length; i++) {
          experts[i] = own[first + i];
        }
        batches.accept(rank, experts);
      }
    }
  }

  private int batch() {
    return Math.min(request.tokens(), ENOUGH);
  }
}
