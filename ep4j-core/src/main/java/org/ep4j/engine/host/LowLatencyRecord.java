package org.ep4j.engine.host;

/**
 * What a rank remembers of a dispatch for its combine. There are three: the results of the last two
 * dispatches are valid, and one combine of the dispatch before those may still be in flight.
 */
final class LowLatencyRecord {
  /** Number of the operation; its name among the ranks. */
  long number;

  /** Tokens of this rank. */
  int tokens;

  /** Choices a token. */
  int topK;

  /** Whether rows lie by source ranks, one a token; else by experts. */
  boolean byRanks;

  /** By ranks: whether weights travel, and the weights of this rank's choices, [tokens, topK]. */
  boolean weighted;

  final float[] weights;

  /** Expert ids as dispatched, [tokens, topK]. */
  final int[] ids;

  /** For each rank the entries (token, expert), or tokens, of this rank that were sent to it. */
  final int[] sent;

  /** For each source rank the rows of its entries, in the order of its list. */
  final int[][] rows;

  /** For each source rank the number of its entries. */
  final int[] received;

  /** For each rank of another node the first of this rank's answers that its rows are to fill. */
  final int[] answerFrom;

  /** For each source rank of another node the first of its answers that its rows are to fill. */
  final int[] answerTo;

  LowLatencyRecord(int ranks, int maxTokens, int topK, int localExperts) {
    ids = new int[Math.multiplyExact(maxTokens, topK)];
    weights = new float[ids.length];
    sent = new int[ranks];
    rows = new int[ranks][Math.multiplyExact(maxTokens, Math.min(topK, localExperts))];
    received = new int[ranks];
    answerFrom = new int[ranks];
    answerTo = new int[ranks];
  }
}
