package org.ep4j.cli.bench;

import org.ep4j.cuda.probe.ProxyProbe;

/**
 * How long commands were on their way, by two clocks. The GPU reads a word into which the host
 * writes its clock all the time: what it reads was written before the GPU's clock said {@code
 * after}, so the host's clock is ahead by at least {@code word - after}. The greatest such lead
 * among the neighbours, close enough for clocks not to drift, turns a time of the GPU into one that
 * is not too late; so every figure is an upper bound, by no more than {@link #look}.
 *
 * @param fromStore from the moment before the command was written to the post
 * @param fromPush the same from the begin of the push
 * @param roundTrip from before the command was written until the GPU has seen the host's answer
 * @param look how long the GPU took to read the host's clock
 */
record RoundTimes(Timings fromStore, Timings fromPush, Timings roundTrip, Timings look) {
  private static final int NEIGHBOURS = 32;

  /** From the words of {@code ep4j_proxy_rounds} and the host's times of the posts. */
  static RoundTimes of(long[] words, long[] posts, int skipped) {
    int rounds = posts.length;
    double[][] micros = new double[4][rounds - skipped];
    for (int i = skipped; i < rounds; i++) {
      long lead = Long.MIN_VALUE;
      for (int j = Math.max(0, i - NEIGHBOURS); j < Math.min(rounds, i + NEIGHBOURS); j++) {
        lead = Math.max(lead, words[j * ProxyProbe.WORDS] - words[j * ProxyProbe.WORDS + 2]);
      }
      int at = i * ProxyProbe.WORDS;
      micros[0][i - skipped] = (posts[i] - words[at + 4] - lead) / 1e3;
      micros[1][i - skipped] = (posts[i] - words[at + 3] - lead) / 1e3;
      micros[2][i - skipped] = (words[at + 5] - words[at + 4]) / 1e3;
      micros[3][i - skipped] = (words[at + 2] - words[at + 1]) / 1e3;
    }
    return new RoundTimes(
        new Timings(micros[0]),
        new Timings(micros[1]),
        new Timings(micros[2]),
        new Timings(micros[3]));
  }
}
