package org.ep4j.engine.host;

import java.util.Arrays;
import org.ep4j.ConfigurationMismatchException;
import org.ep4j.memory.NativeMemory;

/**
 * This rank's description of the operation it is about to take part in; filled anew for each one
 * and compared with those of the peers, so that ranks which call different things get an error
 * instead of each other's bytes.
 */
final class Operation {
  private final long[] words = new long[OperationLayout.FIELDS];

  /** Starts a description. */
  Operation begin(long kind) {
    Arrays.fill(words, 0);
    words[OperationLayout.KIND] = kind;
    return this;
  }

  Operation set(int field, long value) {
    words[field] = value;
    return this;
  }

  Operation set(int field, boolean value) {
    words[field] = value ? 1 : 0;
    return this;
  }

  /** Writes the description into this rank's control page; {@code epoch} is the new epoch. */
  void write(long controlPage, long epoch) {
    words[OperationLayout.EPOCH] = epoch;
    for (int i = 0; i < words.length; i++) {
      NativeMemory.putLong(controlPage + OperationLayout.offset(i), words[i]);
    }
  }

  /** Compares with the description of {@code peer}, which has entered this epoch or a later one. */
  void requireSame(long peerControlPage, int peer, int rank) {
    for (int i = 0; i < words.length; i++) {
      long theirs = NativeMemory.getLong(peerControlPage + OperationLayout.offset(i));
      if (theirs != words[i]) {
        throw mismatch(peer, rank, i, theirs);
      }
    }
  }

  private ConfigurationMismatchException mismatch(int peer, int rank, int field, long theirs) {
    return new ConfigurationMismatchException(
        "rank "
            + peer
            + " differs in the "
            + OperationLayout.name(field)
            + ": "
            + OperationLayout.text(field, theirs)
            + " there, "
            + OperationLayout.text(field, words[field])
            + " on rank "
            + rank
            + " (in "
            + OperationLayout.text(OperationLayout.KIND, words[OperationLayout.KIND])
            + "); all ranks must call the same operations in the same order: call reset() on all"
            + " ranks to go on");
  }
}
