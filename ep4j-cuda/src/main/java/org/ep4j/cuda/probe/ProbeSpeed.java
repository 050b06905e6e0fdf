package org.ep4j.cuda.probe;

import java.util.Arrays;

/**
 * Speed of a push.
 *
 * @param load load of every GPU
 * @param devices number of GPUs
 * @param sms blocks on each of them
 * @param micros microseconds of the slowest GPU, for each repetition
 */
public record ProbeSpeed(ProbeLoad load, int devices, int sms, double[] micros) {
  /** Median time. */
  public double median() {
    double[] sorted = micros.clone();
    Arrays.sort(sorted);
    return sorted[sorted.length / 2];
  }

  /** 10^9 bytes per second that a GPU received from other GPUs. */
  public double remoteGbps() {
    return (devices - 1) * load.bytesOfPair() / median() / 1e3;
  }

  /** The same including its own rows. */
  public double logicalGbps() {
    return (devices - (load.local() ? 0 : 1)) * load.bytesOfPair() / median() / 1e3;
  }
}
