package org.ep4j.moe;

/**
 * Durations of the parts of a forward pass on one rank, in nanoseconds. Dispatch and combine
 * include waits for other ranks.
 *
 * @param route logits and choices
 * @param dispatch rows to their experts
 * @param experts of this rank
 * @param shared the shared expert, 0 if there is none
 * @param combine results home, weighted and added
 */
public record LayerTimes(long route, long dispatch, long experts, long shared, long combine) {
  static final LayerTimes NONE = new LayerTimes(0, 0, 0, 0, 0);
}
