package org.ep4j.cuda.far;

import org.ep4j.wire.WireConfig;

/** Which wire goes with a backend. */
public final class WireChoice {
  private static final String AUTO = "auto";

  /** Name of a backend, and of a wire. */
  private static final String NCCL = "nccl";

  private WireChoice() {}

  /**
   * The wire that a buffer has chosen, or else the environment. Whoever has chosen NCCL and left
   * the wire open has NCCL between nodes, too.
   */
  public static String of(String backend, String wire) {
    String chosen = wire.equals(AUTO) ? WireConfig.builder().build().wire() : wire;
    return chosen.equals(AUTO) && backend.equals(NCCL) ? NCCL : chosen;
  }
}
