package org.ep4j.engine.lowlatency;

import org.ep4j.config.BufferConfig;
import org.ep4j.config.Layout;
import org.ep4j.engine.Limits;

/**
 * The padded shape of what a rank receives: groups of rows, by local expert or by source rank.
 *
 * @param ranks ranks of the group
 * @param experts experts of this rank
 * @param tokens largest number of tokens of a rank
 * @param hidden largest number of elements of a row
 * @param topK largest number of choices of a token
 */
public record OutputShape(int ranks, int experts, int tokens, int hidden, int topK) {
  /** The shape on a rank with {@code experts} experts. */
  public static OutputShape of(BufferConfig config, int ranks, int experts) {
    return new OutputShape(
        ranks, experts, Limits.lowLatencyTokens(config), config.hidden(), config.topK());
  }

  /** The shape for calls with {@code local} experts on this rank. */
  public OutputShape withExperts(int local) {
    return local == experts ? this : new OutputShape(ranks, local, tokens, hidden, topK);
  }

  /** Groups of rows. */
  public int groups(Layout layout) {
    return layout == Layout.RANK_MAJOR ? ranks : experts;
  }

  /** Rows of a group. */
  public long capacity(Layout layout) {
    return layout == Layout.RANK_MAJOR ? tokens : (long) ranks * tokens;
  }
}
