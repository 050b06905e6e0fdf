package org.ep4j.cuda.soak;

/** Operations of one kind, one epoch at a time; the seed and its number determine each epoch. */
interface SoakEpochs {
  /** Enqueues the next epoch and its checks. */
  void next();
}
