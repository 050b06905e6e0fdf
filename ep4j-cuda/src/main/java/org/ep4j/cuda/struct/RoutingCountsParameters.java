package org.ep4j.cuda.struct;

/**
 * Parameters of the kernel that counts a routing without a buffer, {@code
 * dispatch/routing_counts.cu}.
 */
public final class RoutingCountsParameters extends Struct {
  public final U64 tokens = u64("tokens");
  public final U64 topK = u64("top_k");

  /** [tokens, top_k]. */
  public final Pointer ids = pointer("const void*", "ids");

  public final U64 wideIds = u64("wide_ids");
  public final U64 experts = u64("experts");
  public final U64 ranks = u64("ranks");
  public final U64 nodes = u64("nodes");

  /** Experts of a rank. */
  public final U64 each = u64("each");

  /** [ranks]. */
  public final Pointer nodeOf = pointer("const u32*", "node_of");

  /** [experts]. */
  public final Pointer perExpert = pointer("u32*", "per_expert");

  /** [ranks]. */
  public final Pointer perRank = pointer("u32*", "per_rank");

  /** [nodes]. */
  public final Pointer perNode = pointer("u32*", "per_node");

  /** [tokens, ranks]. */
  public final Pointer inRank = pointer("u8*", "in_rank");

  public RoutingCountsParameters() {
    super("RoutingCountsParameters");
  }
}
