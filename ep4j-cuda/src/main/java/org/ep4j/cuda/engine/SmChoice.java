package org.ep4j.cuda.engine;

import org.ep4j.engine.Arguments;

/**
 * How many SMs an operation uses. All blocks of an operation must run at the same time, those of
 * other ranks on the same device too: they wait for one another.
 */
final class SmChoice {
  /**
   * A compromise: more SMs still gain (2 GPUs, 64 instead of 32: 6 to 8 %, docs/performance.md),
   * but those that are left serve the experts.
   */
  private static final int ENOUGH = 32;

  /** The same for low-latency operations, which are short and gain from more. */
  private static final int ENOUGH_FOR_LATENCY = 64;

  private SmChoice() {}

  /** SMs of a low-latency operation; see {@link #settle}. */
  static int settleLatency(int wanted, int multiprocessors, int ranksOnDevice) {
    return wanted == 0
        ? Math.min(ENOUGH_FOR_LATENCY, Math.max(1, multiprocessors / ranksOnDevice))
        : settle(wanted, multiprocessors, ranksOnDevice);
  }

  /**
   * @param wanted 0 = the engine's choice
   * @param multiprocessors of the device
   * @param ranksOnDevice ranks that share it
   */
  static int settle(int wanted, int multiprocessors, int ranksOnDevice) {
    int most = Math.max(1, multiprocessors / ranksOnDevice);
    if (wanted == 0) {
      return Math.min(ENOUGH, most);
    }
    if (wanted < 0 || wanted > most) {
      throw Arguments.invalid(
          "sms",
          wanted,
          "0.."
              + most
              + " ("
              + multiprocessors
              + " SMs, "
              + ranksOnDevice
              + " ranks on the device)",
          "0 = the engine's own choice");
    }
    return wanted;
  }
}
