package org.ep4j.plan;

import org.ep4j.config.BufferConfig;
import org.ep4j.error.ErrorCode;
import org.ep4j.error.InvalidArgumentException;
import org.ep4j.routing.ExpertPlacement;
import org.ep4j.routing.ReplicatedPlacement;
import org.jspecify.annotations.Nullable;

/**
 * What is planned. Ranks lie in blocks on the nodes.
 *
 * @param kind of the operations
 * @param ranks GPUs, at most {@link #MAX_RANKS}
 * @param ranksPerNode ranks of a node, which reach one another over NVLink; divides {@code ranks}
 * @param tokens tokens of each rank
 * @param hidden values of a row, a multiple of 128
 * @param topK distinct experts of a token
 * @param experts logical experts; without a placement a multiple of {@code ranks}
 * @param dtype rows of the dispatch
 * @param routing how tokens choose experts
 * @param sms SMs of an operation
 * @param backend as in {@link org.ep4j.config.BackendName}
 * @param placement ranks of the experts and of their replicas; null: in blocks, each once
 */
public record PlanRequest(
    PlanKind kind,
    int ranks,
    int ranksPerNode,
    int tokens,
    int hidden,
    int topK,
    int experts,
    PlanDType dtype,
    PlanRouting routing,
    int sms,
    String backend,
    @Nullable ReplicatedPlacement placement) {
  /** Largest number of ranks. */
  public static final int MAX_RANKS = 4096;

  /** Largest number of logical experts. */
  public static final int MAX_EXPERTS = 1 << 16;

  private static final int MAX_TOKENS = 1 << 20;
  private static final int MAX_HIDDEN = 1 << 17;

  /**
   * Checks the shape.
   *
   * @throws InvalidArgumentException if numbers are out of range or do not divide each other
   */
  public PlanRequest {
    check(
        ranks >= 1 && ranks <= MAX_RANKS,
        "ranks",
        ranks,
        "1.." + MAX_RANKS,
        ranks < 1 ? "plan one GPU or more" : "plan fewer GPUs");
    check(
        ranksPerNode >= 1 && ranks % ranksPerNode == 0,
        "ranks-per-node",
        ranksPerNode,
        "a divisor of the " + ranks + " ranks",
        "plan whole nodes");
    range("tokens", tokens, MAX_TOKENS);
    check(
        hidden >= 128 && hidden <= MAX_HIDDEN && hidden % 128 == 0,
        "hidden",
        hidden,
        "a multiple of 128 up to " + MAX_HIDDEN,
        "pad the rows");
    check(
        experts >= 1 && experts <= MAX_EXPERTS && (placement != null || experts % ranks == 0),
        "experts",
        experts,
        placement == null
            ? "a multiple of the " + ranks + " ranks up to " + MAX_EXPERTS
            : "1.." + MAX_EXPERTS,
        "add experts, or plan another number of ranks");
    checkPlacement(ranks, experts, placement);
    int nodes = ranks / ranksPerNode;
    check(routing.groups() >= 0, "routing grouped", routing.groups(), "0 or more", "correct it");
    check(
        routing.groups() == 0 || experts % nodes == 0,
        "experts",
        experts,
        "a multiple of the " + nodes + " nodes with grouped routing",
        "add experts, or plan another number of nodes");
    int chosen = chosenNodes(routing, nodes);
    int eligible = chosen == nodes ? experts : experts / nodes * chosen;
    int largest = Math.min(BufferConfig.MAX_TOP_K, eligible);
    check(
        topK >= 1 && topK <= largest,
        "topk",
        topK,
        "1.." + largest,
        "choose among the experts that exist");
    if (routing instanceof RecordedRouting recorded) {
      checkRecorded(experts, topK, recorded);
    }
    check(sms >= 1, "sms", sms, "at least 1", "give the operation an SM");
  }

  private static void checkPlacement(
      int ranks, int experts, @Nullable ReplicatedPlacement placement) {
    if (placement != null) {
      check(
          placement.ranks() == ranks,
          "ranks",
          ranks,
          placement.ranks() + " as in the placement",
          "plan its ranks, or balance for these");
      check(
          placement.experts() == experts,
          "experts",
          experts,
          placement.experts() + " as in the placement",
          "plan its experts");
    }
  }

  private static void checkRecorded(int experts, int topK, RecordedRouting recorded) {
    check(
        topK == recorded.topK(),
        "topk",
        topK,
        recorded.topK() + " as in the recorded routing",
        "leave it out");
    check(
        experts > recorded.greatestExpert(),
        "experts",
        experts,
        "more than " + recorded.greatestExpert() + ", an expert of the recorded routing",
        "plan all experts");
  }

  /** The same request with another placement. */
  public PlanRequest withPlacement(ReplicatedPlacement other) {
    return with(ranks, ranksPerNode, sms, other);
  }

  /** The same request with another number of SMs. */
  public PlanRequest withSms(int other) {
    return with(ranks, ranksPerNode, other, placement);
  }

  /**
   * The same request of other ranks, with experts in blocks.
   *
   * @throws InvalidArgumentException if the experts cannot lie in equal blocks, or too many ranks
   */
  PlanRequest withRanks(int otherRanks, int otherRanksPerNode) {
    return with(otherRanks, otherRanksPerNode, sms, null);
  }

  private PlanRequest with(
      int otherRanks,
      int otherRanksPerNode,
      int otherSms,
      @Nullable ReplicatedPlacement otherPlacement) {
    return new PlanRequest(
        kind,
        otherRanks,
        otherRanksPerNode,
        tokens,
        hidden,
        topK,
        experts,
        dtype,
        routing,
        otherSms,
        backend,
        otherPlacement);
  }

  private static void range(String field, int value, int greatest) {
    check(value >= 1 && value <= greatest, field, value, "1.." + greatest, "correct it");
  }

  private static void check(boolean holds, String field, int value, String limit, String remedy) {
    if (!holds) {
      throw new InvalidArgumentException(
          ErrorCode.PLAN_SHAPE, field, String.valueOf(value), limit, remedy);
    }
  }

  /** Number of nodes. */
  public int nodes() {
    return ranks / ranksPerNode;
  }

  /** The placement, blocks if none is given. */
  public ReplicatedPlacement placed() {
    return placement == null
        ? ReplicatedPlacement.of(ExpertPlacement.blocks(experts, ranks))
        : placement;
  }

  /** Whether every rank has the same number of experts, in blocks, each once. */
  boolean isInBlocks() {
    return experts % ranks == 0
        && (placement == null
            || placement.equals(ReplicatedPlacement.of(ExpertPlacement.blocks(experts, ranks))));
  }

  /** Groups that a token chooses, each the experts of a node. */
  int chosenNodes() {
    return chosenNodes(routing, nodes());
  }

  /** A model that is trained for more groups than there are nodes uses all of them. */
  private static int chosenNodes(PlanRouting routing, int nodes) {
    return routing.groups() == 0 ? nodes : Math.min(routing.groups(), nodes);
  }
}
