package org.ep4j.conformance.wire;

/**
 * The faults that a {@link FaultyWire} injects. Everything follows from the seed: the same seed and
 * the same calls give the same faults.
 *
 * @param seed of all random choices
 * @param steps whether work is delayed, reordered, split, sent twice and refused, as far as the
 *     contract of a wire allows
 * @param killAt step of this rank at which it dies with {@link RankKilled}; 0 for never. A step is
 *     a call of {@code put}, {@code add} or {@code poll}
 * @param dropAt step at which all lanes to {@code dropped} fail; 0 for never
 * @param dropped the peer whose lanes fail
 */
public record FaultPlan(long seed, boolean steps, long killAt, long dropAt, int dropped) {
  /** Only faults that the contract of a wire allows. */
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
