package org.ep4j.cuda.internode;

import org.ep4j.config.BackendName;
import org.ep4j.config.WireName;
import org.ep4j.wire.WireConfig;

/** The wire for a backend. */
public final class WireChoice {
  private WireChoice() {}

  /**
   * The wire that the buffer's configuration or else the environment selects. Backend nccl without
   * a selected wire uses NCCL between nodes too.
   */
  public static String of(String backend, String wire) {
    String chosen = wire.equals(WireName.AUTO) ? WireConfig.builder().build().wire() : wire;
    return chosen.equals(WireName.AUTO) && backend.equals(BackendName.NCCL)
        ? WireName.NCCL
        : chosen;
  }
}
