package org.ep4j.nccl;

import org.ep4j.conformance.KillKit;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;

/** Ranks that are killed while the others share a communicator with them. */
class NcclKillTest extends KillKit {
  @BeforeAll
  static void choose() {
    Gpus.choose();
  }

  @AfterAll
  static void chooseNot() {
    Gpus.chooseNot();
  }

  @Override
  protected String engine() {
    return "cuda";
  }

  @Override
  protected String missing() {
    return Gpus.lacking(2);
  }

  @Override
  protected int ranks() {
    return Math.min(3, Gpus.worlds().max().orElse(2));
  }

  /** Time for the start of CUDA and NCCL. */
  @Override
  protected int openingMillis() {
    return 2_000;
  }
}
