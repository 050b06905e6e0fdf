package org.ep4j.routing;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.Arrays;
import org.ep4j.error.ErrorCode;
import org.ep4j.error.InvalidArgumentException;
import org.ep4j.tensor.DType;
import org.ep4j.tensor.Tensor;
import org.jspecify.annotations.Nullable;

/**
 * Dense routings: a column for each expert in place of a slot for each choice. Reads tensors of any
 * memory and writes to the heap.
 */
final class DenseRouting {
  /** In place of topK: as many slots as the token with the most experts needs. */
  static final int LONGEST_ROW = 0;

  /** The JDK's collections stop a little below the largest int, too: some JVMs need the rest. */
  private static final int MAX_VALUES = Integer.MAX_VALUE - 8;

  private DenseRouting() {}

  static Routing choices(Tensor map, @Nullable Tensor probs, int topK) {
    if (map.dtype() != DType.UINT8 || map.dimensions() != 2) {
      throw new InvalidArgumentException(
          ErrorCode.ROUTING_SHAPE,
          "map",
          map.toString(),
          "UINT8[tokens, experts]",
          "pass one byte for each token and expert, 0 or 1");
    }
    if (probs != null) {
      requireMatrix(probs, map.size(0), map.size(1));
    }
    int tokens = count("map", map.size(0), map);
    int experts = count("map", map.size(1), map);
    if (topK != LONGEST_ROW) {
      requireChoices("map", tokens, topK);
    }
    try (Arena arena = Arena.ofConfined()) {
      MemorySegment chosen = map.onHost(arena).segment();
      int slots = requireSlots(chosen, tokens, experts, topK);
      long[] ids = new long[requireChoices("map", tokens, slots)];
      Arrays.fill(ids, -1);
      MemorySegment from = probs == null ? MemorySegment.NULL : probs.onHost(arena).segment();
      float[] weights = new float[probs == null ? 0 : ids.length];
      for (int token = 0; token < tokens; token++) {
        int slot = token * slots;
        for (int expert = 0; expert < experts; expert++) {
          long at = (long) token * experts + expert;
          if (chosen.get(ValueLayout.JAVA_BYTE, at) != 0) {
            if (probs != null) {
              weights[slot] = float32(from, at);
            }
            ids[slot++] = expert;
          }
        }
      }
      return new Routing(
          Tensor.of(ids, tokens, slots), probs == null ? null : Tensor.of(weights, tokens, slots));
    }
  }

  static Tensor weights(Routing routing, int experts) {
    Tensor weights = routing.topkWeights();
    if (weights == null) {
      throw new InvalidArgumentException(
          ErrorCode.WEIGHTS_MISSING,
          "topkWeights",
          "null",
          "FP32[tokens, topK]",
          "make the matrix of a routing with weights");
    }
    if (experts < 1) {
      throw new InvalidArgumentException(
          ErrorCode.ROUTING_SHAPE,
          "experts",
          String.valueOf(experts),
          ">= 1",
          "pass the number of columns");
    }
    float[] dense = new float[requireChoices("experts", routing.tokens(), experts)];
    long[] ids = routing.topkIdx().toLongArray();
    float[] values = weights.toFloatArray();
    for (int at = 0; at < ids.length; at++) {
      long id = checked(ids[at], at, routing.topK(), experts);
      if (id >= 0) {
        dense[at / routing.topK() * experts + (int) id] = values[at];
      }
    }
    return Tensor.of(dense, routing.tokens(), experts);
  }

  static Routing reweighted(Routing routing, Tensor probs) {
    Tensor idx = routing.topkIdx();
    requireMatrix(probs, idx.size(0), probs.size(probs.dimensions() - 1));
    int experts = count("probs", probs.size(1), probs);
    long[] ids = idx.toLongArray();
    float[] weights = new float[ids.length];
    try (Arena arena = Arena.ofConfined()) {
      MemorySegment dense = probs.onHost(arena).segment();
      for (int at = 0; at < ids.length; at++) {
        long id = checked(ids[at], at, routing.topK(), experts);
        if (id >= 0) {
          weights[at] = float32(dense, at / routing.topK() * (long) experts + id);
        }
      }
    }
    return new Routing(idx, Tensor.of(weights, idx.size(0), idx.size(1)), routing.logicalIdx());
  }

  /** A number of tokens or experts; arrays hold no more than an int counts. */
  private static int count(String argument, long size, Tensor tensor) {
    if (size > MAX_VALUES) {
      throw tooLarge(argument, tensor.toString());
    }
    return (int) size;
  }

  /** The values of a result with a row for each token. */
  private static int requireChoices(String argument, int tokens, int perToken) {
    long values = (long) tokens * perToken;
    if (values > MAX_VALUES) {
      throw tooLarge(argument, tokens + " tokens with " + perToken + " values each");
    }
    return (int) values;
  }

  private static InvalidArgumentException tooLarge(String argument, String value) {
    return new InvalidArgumentException(
        ErrorCode.ROUTING_SHAPE,
        argument,
        value,
        "at most " + MAX_VALUES + " tokens, experts, and values of the result",
        "convert the tokens in several parts");
  }

  /** The slots of a token: {@code topK}, which must suffice, or what the longest row needs. */
  private static int requireSlots(MemorySegment map, int tokens, int experts, int topK) {
    int longest = 1;
    for (int token = 0; token < tokens; token++) {
      int chosen = 0;
      for (int expert = 0; expert < experts; expert++) {
        chosen += map.get(ValueLayout.JAVA_BYTE, (long) token * experts + expert) == 0 ? 0 : 1;
      }
      if (topK != LONGEST_ROW && chosen > topK) {
        throw new InvalidArgumentException(
            ErrorCode.DENSE_ROW_TOO_LONG,
            "map[" + token + "]",
            chosen + " experts",
            "at most topK = " + topK,
            "pass a larger topK, or fewer experts for this token");
      }
      longest = Math.max(longest, chosen);
    }
    return topK == LONGEST_ROW ? longest : topK;
  }

  private static void requireMatrix(Tensor probs, long tokens, long experts) {
    if (probs.dtype() != DType.FP32
        || probs.dimensions() != 2
        || probs.size(0) != tokens
        || probs.size(1) != experts) {
      throw new InvalidArgumentException(
          ErrorCode.ROUTING_SHAPE,
          "probs",
          probs.toString(),
          "FP32[" + tokens + ", " + experts + "]",
          "pass one weight for each token and expert");
    }
  }

  private static long checked(long id, int at, int topK, int experts) {
    if (id < -1 || id >= experts) {
      throw new InvalidArgumentException(
          ErrorCode.NO_SUCH_EXPERT,
          "topkIdx[" + at / topK + ", " + at % topK + "]",
          String.valueOf(id),
          "-1.." + (experts - 1),
          "pass as many columns as there are experts");
    }
    return id;
  }

  private static float float32(MemorySegment memory, long index) {
    return memory.get(ValueLayout.JAVA_FLOAT_UNALIGNED, index * Float.BYTES);
  }
}
