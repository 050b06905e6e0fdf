package org.ep4j.plan.simulation;

/** Events about chunks as longs: 3 bits of kind, 12 each of source and target, 32 of the chunk. */
final class ChunkEvent {
  private ChunkEvent() {}

  static long of(int kind, int source, int target) {
    return of(kind, source, target, 0);
  }

  /**
   * @param kind 0 to 7
   * @param source rank whose tokens the chunk holds, 0 to 4095
   * @param target a rank or node, 0 to 4095
   * @param chunk its number among those of source and target
   */
  static long of(int kind, int source, int target, int chunk) {
    return (long) chunk << 32 | kind << 24 | source << 12 | target;
  }

  static int kind(long event) {
    return (int) event >>> 24;
  }

  static int source(long event) {
    return (int) event >>> 12 & 0xfff;
  }

  static int target(long event) {
    return (int) event & 0xfff;
  }

  static int chunk(long event) {
    return (int) (event >>> 32);
  }
}
