package org.ep4j.wire.support;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.stream.Collectors;
import org.ep4j.error.Ep4jException;
import org.ep4j.error.ErrorCode;
import org.ep4j.group.Group;
import org.ep4j.wire.WireException;

/**
 * Collective steps of opening wires and regions. Every rank reports the result of its step, so a
 * failure of one rank ends the step on all ranks with the same message instead of a timeout.
 */
public final class CollectiveStep {
  private static final byte OK = 0;
  private static final byte FAILED = 1;

  /** Different errors of ranks in one message. */
  private static final int MAX_SHOWN = 3;

  private CollectiveStep() {}

  /** A local part of opening; its error is for all ranks. */
  public interface Step {
    void run() throws IOException;
  }

  /**
   * Runs the local part of a collective step.
   *
   * @return the error for {@link #exchange}, with its code; empty if the step succeeded
   */
  public static String attempt(Step step) {
    try {
      step.run();
      return "";
    } catch (Ep4jException e) {
      return String.valueOf(e.getMessage());
    } catch (IOException | RuntimeException | OutOfMemoryError | LinkageError e) {
      // The other ranks wait in the exchange: without this error they would blame a silent rank.
      Throwable cause = e instanceof ExceptionInInitializerError ? e.getCause() : null;
      return ErrorCode.WIRE_FAILED.message((cause == null ? e : cause).toString());
    }
  }

  /**
   * All-gathers some bytes, or fails on all ranks if one rank passes an error. The error keeps the
   * code with which its text begins.
   *
   * <p>The timeout belongs to the exchange alone. Time that a step before it has used must not
   * shorten it: a rank whose step failed late still has to reach the others with its error.
   *
   * @param error empty if this rank's step succeeded
   * @throws WireException naming the first ranks with errors: one may only have waited in vain for
   *     another, which knows the cause
   */
  public static byte[][] exchange(Group group, String error, byte[] body, Duration timeout) {
    byte[] content = error.isEmpty() ? body : error.getBytes(StandardCharsets.UTF_8);
    byte[] mine = new byte[content.length + 1];
    mine[0] = error.isEmpty() ? OK : FAILED;
    System.arraycopy(content, 0, mine, 1, content.length);
    byte[][] all = group.allGather(mine, timeout);
    byte[][] bodies = new byte[all.length][];
    Map<String, Integer> errors = new LinkedHashMap<>();
    for (int rank = 0; rank < all.length; rank++) {
      if (all[rank][0] == FAILED) {
        String text = new String(all[rank], 1, all[rank].length - 1, StandardCharsets.UTF_8);
        errors.merge(text, rank, Math::min);
        continue;
      }
      bodies[rank] = new byte[all[rank].length - 1];
      System.arraycopy(all[rank], 1, bodies[rank], 0, bodies[rank].length);
    }
    if (!errors.isEmpty()) {
      throw failed(errors);
    }
    return bodies;
  }

  /**
   * The error with the code of the first rank's; the others keep codes that differ from it.
   *
   * @param errors of ranks, in their order
   */
  private static WireException failed(Map<String, Integer> errors) {
    ErrorCode code = codeOf(errors.keySet().iterator().next());
    String prefix = code.message("");
    String shown =
        errors.entrySet().stream()
            .limit(MAX_SHOWN)
            .map(error -> "rank " + error.getValue() + ": " + without(prefix, error.getKey()))
            .collect(Collectors.joining("; "));
    int more = errors.size() - MAX_SHOWN;
    return new WireException(code, more > 0 ? shown + "; and " + more + " other errors" : shown);
  }

  private static String without(String prefix, String text) {
    return text.startsWith(prefix) ? text.substring(prefix.length()) : text;
  }

  /** The code with which an error begins. */
  private static ErrorCode codeOf(String text) {
    for (ErrorCode code : ErrorCode.values()) {
      if (text.startsWith(code.message(""))) {
        return code;
      }
    }
    return ErrorCode.WIRE_FAILED;
  }

  /** All-gathers one number per rank; errors as {@link #exchange}. */
  public static long[] numbers(Group group, String error, long mine, Duration timeout) {
    byte[][] all =
        exchange(group, error, ByteBuffer.allocate(Long.BYTES).putLong(mine).array(), timeout);
    long[] numbers = new long[all.length];
    for (int rank = 0; rank < all.length; rank++) {
      numbers[rank] = ByteBuffer.wrap(all[rank]).getLong();
    }
    return numbers;
  }
}
