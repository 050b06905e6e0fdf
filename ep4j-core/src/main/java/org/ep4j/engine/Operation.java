package org.ep4j.engine;

import java.util.Arrays;
import org.ep4j.Tokens;
import org.ep4j.error.ConfigurationMismatchException;
import org.ep4j.error.ErrorCode;
import org.ep4j.memory.NativeMemory;
import org.ep4j.tensor.Tensor;
import org.jspecify.annotations.Nullable;

/**
 * This rank's description of its next operation. Filled for each operation and compared with the
 * descriptions of the peers: ranks that call different operations get an error instead of wrong
 * bytes.
 */
public final class Operation {
  private final long[] words = new long[OperationLayout.FIELDS];

  /** An empty description. */
  public Operation() {}

  /** Starts a description. */
  public Operation begin(long kind) {
    Arrays.fill(words, 0);
    words[OperationLayout.KIND] = kind;
    return this;
  }

  /** Sets a field of {@link OperationLayout}. */
  public Operation set(int field, long value) {
    words[field] = value;
    return this;
  }

  /** Sets a boolean field of {@link OperationLayout}. */
  public Operation set(int field, boolean value) {
    return set(field, value ? 1 : 0);
  }

  /** Sets the fields of a dispatch's payload. */
  public Operation payload(Tokens tokens) {
    Tensor scales = tokens.scales();
    return set(OperationLayout.DTYPE, tokens.x().dtype().ordinal())
        .set(OperationLayout.SCALE_DTYPE, scales == null ? 0 : scales.dtype().ordinal() + 1)
        .set(OperationLayout.SCALES, tokens.scalesPerRow())
        .set(OperationLayout.GLOBAL_SCALES, tokens.globalScales() != null)
        .set(OperationLayout.HIDDEN, tokens.x().size(1));
  }

  /** Writes the description with plain stores; {@code epoch} is the number of the operation. */
  public void write(long address, long epoch) {
    words[OperationLayout.EPOCH] = epoch;
    for (int i = 0; i < words.length; i++) {
      NativeMemory.putLong(address + OperationLayout.offset(i), words[i]);
    }
  }

  /** Reads a description with plain loads. */
  public void read(long address) {
    for (int i = 0; i < words.length; i++) {
      words[i] = NativeMemory.getLong(address + OperationLayout.offset(i));
    }
  }

  /** Number of the operation that a description belongs to. */
  public static long numberAt(long address) {
    return NativeMemory.getLong(address + OperationLayout.offset(OperationLayout.EPOCH));
  }

  /**
   * The first difference between this description, of {@code rank}, and that of {@code peer}; null
   * if they are equal.
   */
  public @Nullable ConfigurationMismatchException difference(long peerAddress, int peer, int rank) {
    for (int i = 0; i < words.length; i++) {
      long theirs = NativeMemory.getLong(peerAddress + OperationLayout.offset(i));
      if (theirs != words[i]) {
        return mismatch(peer, rank, i, theirs);
      }
    }
    return null;
  }

  private ConfigurationMismatchException mismatch(int peer, int rank, int field, long theirs) {
    return new ConfigurationMismatchException(
        ErrorCode.OPERATIONS_DIFFER,
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
            + " ranks to continue");
  }
}
