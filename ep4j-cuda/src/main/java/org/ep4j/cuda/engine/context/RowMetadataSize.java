package org.ep4j.cuda.engine.context;

/**
 * Size of the metadata that an EXPERT_MAJOR dispatch sends with each row: a factor, its scales and,
 * unless cached, the rows and weights of all choices. The order is that of {@code
 * RowMetadataLayout} in {@code kernels/dispatch/row_metadata.cuh}.
 */
public final class RowMetadataSize {
  /** Granularity of bulk copies. */
  private static final long UNIT = 16;

  private RowMetadataSize() {}

  public static long bytes(long scaleBytes, int topK, boolean cached) {
    long known = UNIT + align(scaleBytes);
    return cached ? known : align(known + topK * (long) (Long.BYTES + Float.BYTES));
  }

  private static long align(long bytes) {
    return (bytes + UNIT - 1) / UNIT * UNIT;
  }
}
