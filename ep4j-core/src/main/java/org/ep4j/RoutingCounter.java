package org.ep4j;

import org.ep4j.engine.Engines;
import org.ep4j.engine.HostRoutingCounter;
import org.ep4j.engine.RoutingCounterChecks;
import org.ep4j.execution.DeviceStream;
import org.ep4j.routing.Routing;

/**
 * Counts the tokens of routings by rank, node and expert, without a buffer: before one is open, or
 * for other numbers of experts than those of a buffer. Experts lie on the ranks in blocks, as in
 * {@link org.ep4j.routing.ExpertPlacement#blocks}. Local: no other rank takes part.
 *
 * <p>Counts ids that name no expert as -1: the dispatch refuses them. A token that names an expert
 * twice counts once.
 *
 * <p>Any thread may call, one at a time. {@link ExpertBuffer#dispatchLayout(Routing)} counts for
 * any placement, and checks the ids.
 */
public interface RoutingCounter extends AutoCloseable {
  /**
   * A counter for tensors in host memory.
   *
   * @param nodeOfRank number of the node of each rank: 0 for the first rank; for every other one
   *     the number of the rank before it, or one more
   * @throws org.ep4j.error.InvalidArgumentException if the numbers are others
   */
  static RoutingCounter onHost(int... nodeOfRank) {
    RoutingCounterChecks checks = new RoutingCounterChecks(nodeOfRank);
    return new HostRoutingCounter(checks);
  }

  /**
   * A counter for tensors of a device. Loads a kernel, so open it while no operation of a buffer is
   * in flight on the device.
   *
   * @param device ordinal
   * @param nodeOfRank as in {@link #onHost}
   * @throws org.ep4j.error.InvalidArgumentException if the numbers of the nodes are others, or
   *     there is no such device
   * @throws org.ep4j.error.EngineUnavailableException if no engine for devices is here
   */
  static RoutingCounter onDevice(int device, int... nodeOfRank) {
    return Engines.routingCounter(device, new RoutingCounterChecks(nodeOfRank));
  }

  /**
   * Counts a routing; complete when the call returns. On a device it does not wait for streams that
   * still write the ids.
   *
   * @param routing its weights are not used
   * @throws org.ep4j.error.InvalidArgumentException if a tensor has another shape, type or place,
   *     or the number of experts is no multiple of that of ranks
   */
  void count(Routing routing, RoutingCounts counts);

  /**
   * Enqueues a count on a stream of the device. The tensors must live until the stream has executed
   * it. A CUDA graph may capture the call.
   *
   * @throws org.ep4j.error.InvalidArgumentException as {@link #count(Routing, RoutingCounts)}, and
   *     for a counter on the host
   */
  void count(Routing routing, RoutingCounts counts, DeviceStream stream);

  /** Frees the counter, after its last count has been executed; no effect if it is closed. */
  @Override
  void close();
}
