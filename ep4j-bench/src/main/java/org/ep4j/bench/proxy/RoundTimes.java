package org.ep4j.bench.proxy;

import org.ep4j.bench.Timings;
import org.ep4j.cuda.probe.ProxyProbe;

/**
 * Latencies of commands, from two clocks. The host continuously writes its clock into a word that
 * the GPU reads. The value was written before the GPU clock reached {@code after}, so the host
 * clock is ahead by at least {@code word - after}. The maximum lead among neighbouring rounds,
 * which are close enough that drift is negligible, converts a GPU time into a host time that is not
 * too late. So every figure is an upper bound with an error of at most {@link #look}.
 *
 * @param fromStore time from before the store of the command to the post
 * @param fromPush time from the begin of the push to the post
 * @param roundTrip time from before the store of the command until the GPU reads the answer of the
 *     host
 * @param look time in which the GPU reads the host clock
 */
public record RoundTimes(Timings fromStore, Timings fromPush, Timings roundTrip, Timings look) {
  private static final int NEIGHBOURS = 32;

  /** Computed from the words of {@code ep4j_proxy_rounds} and the host times of the posts. */
  public static RoundTimes of(long[] words, long[] posts, int skipped) {
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
