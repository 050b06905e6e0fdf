package org.ep4j.conformance.wire;

/**
 * What a {@link FaultyWire} does to the work that goes through it. Everything follows from the
 * seed: the same seed and the same calls give the same faults.
 *
 * @param seed of everything random
 * @param steps whether work is delayed, reordered, cut up, sent twice and refused, as far as the
 *     contract of a wire allows
 * @param killAt step of this rank at which it dies with {@link RankKilled}; 0 for never. A step is
 *     a call of {@code put}, {@code add} or {@code poll}
 * @param dropAt step at which all lanes to {@code dropped} fail; 0 for never
 * @param dropped the peer that is dropped
 */
public record FaultPlan(long seed, boolean steps, long killAt, long dropAt, int dropped) {
  /** Only what a correct wire may do on a bad day. */
  public static FaultPlan legal(long seed) {
    return new FaultPlan(seed, true, 0, 0, -1);
  }

  /** The same, and this rank dies at a step. */
  public FaultPlan killingAt(long step) {
    return new FaultPlan(seed, steps, step, dropAt, dropped);
  }

  /** The same, and the lanes to a peer fail at a step. */
  public FaultPlan dropping(int peer, long step) {
    return new FaultPlan(seed, steps, killAt, step, peer);
  }
}
