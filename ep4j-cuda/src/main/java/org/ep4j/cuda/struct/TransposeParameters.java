package org.ep4j.cuda.struct;

/** Parameters of the kernel that transposes scales, {@code dispatch/transpose_scales.cu}. */
public final class TransposeParameters extends Struct {
  public final Pointer control = pointer("struct Control*", "control");
  public final Pointer from = pointer("const char*", "from");
  public final Pointer to = pointer("char*", "to");
  public final U64 columns = u64("columns");

  /** 1 or 4. */
  public final U64 elementBytes = u64("element_bytes");

  /** [1] rows received, may exceed {@code limit}. */
  public final Pointer rows = pointer("const u32*", "rows");

  /** Row capacity. */
  public final U64 limit = u64("limit");

  /** 1: columns have room for {@code limit} rows, 0: for the received rows. */
  public final U64 fixed = u64("fixed");

  public final Receipt receipt = nested(new Receipt(), "receipt");

  public TransposeParameters() {
    super("TransposeParameters");
  }
}
