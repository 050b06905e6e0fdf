package org.ep4j.jlama;

/** What a rank wants to do next. Of several wishes, the last constant among them comes first. */
enum Phase {
  /** Only computes for others. */
  SERVE,
  /** One token a rank, low latency. */
  DECODE,
  /** Up to a batch of tokens a rank, high throughput. */
  PREFILL
}
