package org.ep4j.cuda.put;

import java.time.Duration;
import org.ep4j.InvalidArgumentException;
import org.ep4j.cuda.backend.PutShape;

/**
 * How memory that kernels put into is opened; the same on all ranks.
 *
 * @param backend how GPUs reach each other; {@code auto} as {@link
 *     org.ep4j.cuda.backend.BackendChoice} says
 * @param shape what is there
 * @param ranksPerNode ranks that reach each other by stores; 0: those of a host
 * @param wire between nodes, where the backend has nothing of its own
 * @param timeout how long ranks wait for each other
 */
public record PutConfig(
    String backend, PutShape shape, int ranksPerNode, String wire, Duration timeout) {
  private static final Duration DEFAULT_TIMEOUT = Duration.ofSeconds(30);

  /** Checks the values. */
  public PutConfig {
    if (ranksPerNode < 0) {
      throw new InvalidArgumentException(
          "ranksPerNode", String.valueOf(ranksPerNode), ">= 0", "0: the ranks of a host");
    }
  }

  /** Ranks of a host are a node, and the wire between nodes is the best that there is. */
  public static PutConfig of(String backend, PutShape shape) {
    return new PutConfig(backend, shape, 0, "auto", DEFAULT_TIMEOUT);
  }
}
