package org.ep4j.plan;

import java.util.Locale;

/** The parts of a predicted time. */
public enum Term {
  /** Rows over NVLink. */
  NVLINK("NVLink", true),
  /** Rows over the NIC. */
  NIC("NIC", true),
  /** What the SMs of the operation spend on rows. */
  SM("SMs", true),
  /** Reads and writes of the GPU's memory. */
  MEMORY("memory", true),
  /** Until the first rows have passed the pipeline. */
  FILL("fill", false),
  /** Fixed costs of a kernel. */
  FIXED("fixed", false),
  /** What grows with the number of ranks that one rank hears. */
  INCAST("incast", false);

  private final String label;
  private final boolean overlaps;

  Term(String label, boolean overlaps) {
    this.label = label;
    this.overlaps = overlaps;
  }

  /** Whether the machine works on it at the same time as on other terms; if not, it adds. */
  public boolean overlaps() {
    return overlaps;
  }

  /** Name in JSON, for example {@code nvlink_us}. */
  public String key() {
    return word() + "_us";
  }

  /** Name for people, for example {@code NVLink}. */
  public String label() {
    return label;
  }

  /** Name of a limit in tables and JSON, for example {@code nvlink}. */
  public String word() {
    return name().toLowerCase(Locale.ROOT);
  }
}
