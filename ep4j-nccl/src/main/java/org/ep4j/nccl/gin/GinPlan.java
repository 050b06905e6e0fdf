package org.ep4j.nccl.gin;

import java.util.Map;
import org.ep4j.error.ErrorCode;
import org.ep4j.error.InvalidArgumentException;

/**
 * How many communicators and contexts of GIN carry the lanes of kernels' puts. Each lane should
 * have a context, with a queue pair to each rank. Versions before 2.29.7 have {@code
 * NCCL_GIN_NCONTEXTS} contexts in a communicator, 4 at most, whatever is requested; later ones have
 * as many as requested. So the first communicator is asked for all contexts, and what it has
 * decides how many communicators there are.
 *
 * <p>Lane {@code i} has context {@code i % contexts} of communicator {@code i / contexts}; lanes
 * beyond the last context share the contexts in turn ({@code device_put.cu}).
 *
 * @param contexts contexts that the lanes need together
 * @param communicators number of communicators; 0 if their contexts decide
 * @param open whether no variable sets a number
 */
public record GinPlan(int contexts, int communicators, boolean open) {
  /** Environment variable with the number of contexts of all communicators together. */
  public static final String CONTEXTS = "EP4J_NCCL_GIN_CONTEXTS";

  /** Environment variable with the number of communicators. */
  public static final String COMMUNICATORS = "EP4J_NCCL_GIN_COMMS";

  /** More lanes than this share contexts: each context has queue pairs to all ranks. */
  public static final int MAX_CONTEXTS = 32;

  /** Each communicator has threads and connections of its own. */
  static final int MAX_COMMUNICATORS = 32;

  private static final int MAX_SETTING = 999;

  /**
   * The plan for a number of lanes.
   *
   * @throws InvalidArgumentException if a variable has a bad value
   */
  public static GinPlan of(Map<String, String> variables, int lanes) {
    int contexts = number(variables, CONTEXTS, MAX_SETTING);
    int communicators = number(variables, COMMUNICATORS, MAX_COMMUNICATORS);
    return new GinPlan(
        Math.min(lanes, contexts == 0 ? MAX_CONTEXTS : contexts),
        Math.min(lanes, communicators),
        contexts == 0 && communicators == 0);
  }

  /** The value of a variable; 0 if it is not set. */
  private static int number(Map<String, String> variables, String variable, int max) {
    String set = variables.getOrDefault(variable, "").strip();
    if (set.isEmpty()) {
      return 0;
    }
    int value = set.matches("[1-9][0-9]{0,2}") ? Integer.parseInt(set) : 0;
    if (value == 0 || value > max) {
      throw new InvalidArgumentException(
          ErrorCode.NCCL_SETTING, variable, "'" + set + "'", "1.." + max, "unset it");
    }
    return value;
  }

  /** Contexts to request in each communicator. */
  public int inEach() {
    return communicators == 0 ? contexts : Math.ceilDiv(contexts, communicators);
  }

  /**
   * Number of communicators.
   *
   * @param had contexts that the first communicator has
   * @throws InvalidArgumentException if there would be too many
   */
  int communicators(long had) {
    if (communicators != 0) {
      return communicators;
    }
    long needed = Math.ceilDiv(contexts, Math.max(1, had));
    if (needed > MAX_COMMUNICATORS) {
      throw new InvalidArgumentException(
          ErrorCode.NCCL_SETTING,
          CONTEXTS,
          String.valueOf(contexts),
          "at most %d: %d communicators with %d contexts each"
              .formatted(MAX_COMMUNICATORS * had, MAX_COMMUNICATORS, had),
          "lower it, or set " + COMMUNICATORS + ", whose contexts the lanes then share");
    }
    return Math.toIntExact(needed);
  }
}
