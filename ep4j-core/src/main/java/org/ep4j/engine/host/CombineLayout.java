package org.ep4j.engine.host;

/**
 * Where a rank's rows lie in a combine.
 *
 * <p>Protocol. The owner writes both words plainly before it publishes {@link
 * ControlPageLayout#ENTERED}; by then the rows themselves are complete. Peers read the words, then
 * the rows, after they have seen that; the owner keeps the rows until all peers have published
 * {@link ControlPageLayout#FINISHED}.
 *
 * <p>A place is told as distance from the start of the owner's region: inside the region for ranks
 * of different processes, anywhere for threads of one process.
 */
final class CombineLayout {
  /** Long: distance of the first row. */
  static final long ROWS = 0;

  /** Long: distance of the first weight; undefined without weights. */
  static final long WEIGHTS = 8;

  static final long BYTES = ControlPageLayout.LINE;

  private CombineLayout() {}
}
