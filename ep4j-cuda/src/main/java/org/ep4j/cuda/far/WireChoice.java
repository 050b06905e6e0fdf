package org.ep4j.cuda.far;

import org.ep4j.wire.WireConfig;

/** Which wire goes with a backend. */
public final class WireChoice {
  private static final String AUTO = "auto";

  /** Name of a backend, and of a wire. */
  private static final String NCCL = "nccl";

  private WireChoice() {}

  /** Whoever has chosen NCCL and left the wire open has NCCL between nodes, too. */
  public static String of(String backend, String wire) {
    boolean open = wire.equals(AUTO) && WireConfig.builder().build().wire().equals(AUTO);
    return open && backend.equals(NCCL) ? NCCL : wire;
  }
}
