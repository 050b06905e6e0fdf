package org.ep4j.plan;

import java.util.Locale;

/** The parts of a predicted time. */
public enum Term {
  /** Rows over NVLink. */
  NVLINK,
  /** Rows over the NIC. */
  NIC,
  /** What the SMs of the operation spend on rows. */
  SM,
  /** Reads and writes of the GPU's memory. */
  MEMORY,
  /** Until the first rows have passed the pipeline. */
  FILL,
  /** Fixed costs of a kernel. */
  FIXED,
  /** What grows with the number of ranks that one rank hears. */
  INCAST;

  /** Name in JSON, for example {@code nvlink_us}. */
  public String key() {
    return word() + "_us";
  }

  /** Name in tables. */
  public String word() {
    return name().toLowerCase(Locale.ROOT);
  }
}
