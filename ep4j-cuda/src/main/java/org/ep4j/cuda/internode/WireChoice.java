package org.ep4j.cuda.internode;

import org.ep4j.wire.WireConfig;

/** The wire for a backend. */
public final class WireChoice {
  private static final String AUTO = "auto";

  /** Name of a backend, and of a wire. */
  private static final String NCCL = "nccl";

  private WireChoice() {}

  /**
   * The wire that the buffer's configuration or else the environment selects. Backend nccl without
   * a selected wire uses NCCL between nodes too.
   */
  public static String of(String backend, String wire) {
    String chosen = wire.equals(AUTO) ? WireConfig.builder().build().wire() : wire;
    return chosen.equals(AUTO) && backend.equals(NCCL) ? NCCL : chosen;
  }
}
