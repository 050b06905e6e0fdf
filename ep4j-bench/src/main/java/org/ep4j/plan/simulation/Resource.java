package org.ep4j.plan.simulation;

import java.util.Locale;

/** What rows of a rank pass. Each serves chunks one after another, in the order of arrival. */
public enum Resource {
  /**
   * SMs that hand rows to a link: of a dispatch at the source, of a combine where rows are summed.
   */
  SM_OUT("SMs out"),
  /** SMs that take arrived rows on: they forward a dispatch, and sum a combine at its end. */
  SM_IN("SMs in"),
  /** NVLink from the GPU. */
  NVLINK_OUT("NVLink out"),
  /** NVLink to the GPU. */
  NVLINK_IN("NVLink in"),
  /** The NIC, all ports, from the GPU. */
  NIC_OUT("NIC out"),
  /** The NIC, all ports, to the GPU. */
  NIC_IN("NIC in"),
  /** Memory that is read and written for rows that leave. */
  MEMORY_OUT("memory out"),
  /** Memory that is read and written for rows that arrive. */
  MEMORY_IN("memory in");

  private final String word;

  Resource(String word) {
    this.word = word;
  }

  /** Name in JSON, for example {@code nic_out}. */
  public String key() {
    return name().toLowerCase(Locale.ROOT);
  }

  /** Name in tables. */
  public String word() {
    return word;
  }
}
