package org.ep4j.cuda.put;

import java.time.Duration;
import org.ep4j.config.WireName;
import org.ep4j.cuda.backend.PutShape;
import org.ep4j.error.ErrorCode;
import org.ep4j.error.InvalidArgumentException;

/**
 * Configuration of memory that kernels put into, equal on all ranks.
 *
 * @param backend backend between GPUs; {@code auto} as in {@link
 *     org.ep4j.cuda.backend.BackendChoice}
 * @param shape shape of the memory
 * @param ranksPerNode ranks that access each other by stores; 0: the ranks of a host
 * @param wire wire between nodes, if the backend has no transport of its own
 * @param timeout how long ranks wait for each other
 */
public record PutConfig(
    String backend, PutShape shape, int ranksPerNode, String wire, Duration timeout) {
  private static final Duration DEFAULT_TIMEOUT = Duration.ofSeconds(30);

  /** Checks the values. */
  public PutConfig {
    if (ranksPerNode < 0) {
      throw new InvalidArgumentException(
          ErrorCode.PUT_SHAPE,
          "ranksPerNode",
          String.valueOf(ranksPerNode),
          ">= 0",
          "use 0 for the ranks of a host");
    }
  }

  /** Ranks of a host form a node, with the best available wire between nodes. */
  public static PutConfig of(String backend, PutShape shape) {
    return new PutConfig(backend, shape, 0, WireName.AUTO, DEFAULT_TIMEOUT);
  }
}
