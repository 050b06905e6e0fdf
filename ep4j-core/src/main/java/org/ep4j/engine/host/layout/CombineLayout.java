package org.ep4j.engine.host.layout;

/**
 * Address of a rank's rows in a combine.
 *
 * <p>Protocol. The owner writes both words with plain stores before it publishes {@link
 * ControlPageLayout#ENTERED}; the rows are complete by then. Peers observe ENTERED, then read the
 * words and the rows. The owner keeps the rows until all peers have published {@link
 * ControlPageLayout#FINISHED}.
 *
 * <p>An address is an offset from the start of the owner's region: inside the region for ranks of
 * different processes, anywhere for threads of one process.
 */
public final class CombineLayout {
  /** Long: offset of the first row. */
  public static final long ROWS = 0;

  /** Long: offset of the first weight; undefined without weights. */
  public static final long WEIGHTS = 8;

  static final long BYTES = ControlPageLayout.LINE;

  private CombineLayout() {}
}
