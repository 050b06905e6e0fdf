package org.ep4j.cuda.struct;

/** Parameters of the kernel that counts a routing, {@code dispatch/layout.cu}. */
public final class LayoutParameters extends Struct {
  public final Pointer control = pointer("struct Control*", "control");
  public final U64 ranks = u64("ranks");
  public final U64 experts = u64("experts");
  public final Pointer placement = pointer("const u32*", "placement");
  public final U64 tokens = u64("tokens");
  public final U64 topK = u64("top_k");
  public final Pointer ids = pointer("const void*", "ids");
  public final U64 wideIds = u64("wide_ids");

  /** [ranks]. */
  public final Pointer perRank = pointer("u32*", "per_rank");

  /** [nodes]. */
  public final Pointer perNode = pointer("u32*", "per_node");

  /** [experts]. */
  public final Pointer perExpert = pointer("u32*", "per_expert");

  /** [tokens, ranks]. */
  public final Pointer inRank = pointer("u8*", "in_rank");

  /** [ranks]; null: one node. */
  public final Pointer nodeOf = pointer("const u32*", "node_of");

  public final Pointer record = pointer("struct Record*", "record");

  public LayoutParameters() {
    super("LayoutParameters");
  }
}
