package org.ep4j.cuda.struct;

/**
 * Parameters of the kernel that translates the ids of calls with fewer experts than the buffer,
 * {@code dispatch/expert_ids.cu}.
 */
public final class ExpertIdsParameters extends Struct {
  public final Pointer control = pointer("struct Control*", "control");
  public final Pointer record = pointer("struct Record*", "record");

  /** Number of the last operation of the same kind. */
  public final Pointer number = pointer("const u64*", "number");

  /** Bits that mark numbers of that kind in the record. */
  public final U64 mark = u64("mark");

  public final U64 tokens = u64("tokens");
  public final U64 topK = u64("top_k");

  /** [tokens, top_k]. */
  public final Pointer ids = pointer("const void*", "ids");

  public final U64 wideIds = u64("wide_ids");

  /** Experts of the call, and those of a rank in it. */
  public final U64 experts = u64("experts");

  public final U64 each = u64("each");

  /** {@code DispatchParameters.order}: starts of ranks, then experts of the buffer by rank. */
  public final Pointer order = pointer("const u32*", "order");

  public final U64 ranks = u64("ranks");

  /** [tokens, top_k] experts of the buffer. */
  public final Pointer to = pointer("i64*", "to");

  public ExpertIdsParameters() {
    super("ExpertIdsParameters");
  }
}
