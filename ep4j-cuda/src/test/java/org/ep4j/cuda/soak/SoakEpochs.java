package org.ep4j.cuda.soak;

/** Operations of one kind, an epoch at a time; each epoch follows from the seed and its number. */
interface SoakEpochs {
  /** Enqueues the next epoch and its checks. */
  void next();
}
