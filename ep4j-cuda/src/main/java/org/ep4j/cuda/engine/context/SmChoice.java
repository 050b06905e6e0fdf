package org.ep4j.cuda.engine.context;

import org.ep4j.cuda.engine.launch.Kernels;
import org.ep4j.error.ErrorCode;
import org.ep4j.error.InvalidArgumentException;

/**
 * Number of SMs of an operation. All blocks of an operation must run at the same time, including
 * those of other ranks on the same device: they wait for each other.
 */
final class SmChoice {
  /**
   * A compromise: more SMs still gain (2 GPUs, 64 instead of 32: 6 to 8 %, docs/performance.md),
   * but the remaining SMs run the experts.
   */
  private static final int ENOUGH = 32;

  /**
   * The compromise between nodes: fewer SMs saturate the host link, and waiting warps of more SMs
   * slow it down (docs/performance.md).
   */
  private static final int ENOUGH_BETWEEN_NODES = 12;

  /**
   * Fewest blocks of a low-latency operation: one publishes the routing, the others move pieces at
   * once. A single token takes longer with 16 or 32 (docs/performance.md).
   */
  private static final int MIN_FOR_LATENCY = 8;

  /** Pieces of a block: half of its warps receive while the others send. */
  private static final int PIECES_FOR_LATENCY = Kernels.WARPS / 2;

  private SmChoice() {}

  /**
   * SMs of a low-latency operation: one piece for every second warp, as far as SMs are available;
   * between nodes the number that saturates the host link.
   *
   * @param wanted 0 = the engine's choice
   * @param available SMs for one rank
   * @param pieces pieces to move
   * @param severalNodes whether rows cross between nodes
   */
  static int forLatency(int wanted, int available, long pieces, boolean severalNodes) {
    if (wanted != 0) {
      return wanted;
    }
    if (severalNodes) {
      return Math.min(available, ENOUGH_BETWEEN_NODES);
    }
    long blocks = 1 + Math.ceilDiv(pieces, PIECES_FOR_LATENCY);
    return (int) Math.min(available, Math.max(MIN_FOR_LATENCY, blocks));
  }

  /**
   * @param wanted 0 = the engine's choice
   * @param multiprocessors of the device
   * @param ranksOnDevice ranks that share it
   * @param severalNodes whether rows cross between nodes
   */
  static int settle(int wanted, int multiprocessors, int ranksOnDevice, boolean severalNodes) {
    int available = Math.max(1, multiprocessors / ranksOnDevice);
    if (wanted == 0) {
      return Math.min(severalNodes ? ENOUGH_BETWEEN_NODES : ENOUGH, available);
    }
    if (wanted < 0 || wanted > available) {
      throw new InvalidArgumentException(
          ErrorCode.CUDA_SMS,
          "sms",
          String.valueOf(wanted),
          "0.."
              + available
              + " ("
              + multiprocessors
              + " SMs, "
              + ranksOnDevice
              + " ranks on the device)",
          "use 0 for the choice of the engine");
    }
    return wanted;
  }
}
