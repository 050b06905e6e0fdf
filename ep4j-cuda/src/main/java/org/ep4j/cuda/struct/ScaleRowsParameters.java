package org.ep4j.cuda.struct;

/**
 * Parameters of the kernel that turns given columns of scales into rows, {@code
 * dispatch/scale_rows.cu}.
 */
public final class ScaleRowsParameters extends Struct {
  /** [columns, length]. */
  public final Pointer from = pointer("const char*", "from");

  /** [tokens, columns]. */
  public final Pointer to = pointer("char*", "to");

  public final U64 tokens = u64("tokens");
  public final U64 columns = u64("columns");

  /** Elements of a column, at least {@code tokens}. */
  public final U64 length = u64("length");

  /** 1 or 4. */
  public final U64 elementBytes = u64("element_bytes");

  public ScaleRowsParameters() {
    super("ScaleRowsParameters");
  }
}
