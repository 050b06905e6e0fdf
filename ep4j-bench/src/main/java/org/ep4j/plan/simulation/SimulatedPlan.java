package org.ep4j.plan.simulation;

import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;
import org.ep4j.error.InvalidArgumentException;
import org.ep4j.plan.MachineProfile;
import org.ep4j.plan.Operation;
import org.ep4j.plan.PairTraffic;
import org.ep4j.plan.PlanKind;
import org.ep4j.plan.PlanRequest;
import org.ep4j.plan.ProfileConstant;

/**
 * What simulation finds for a request.
 *
 * @param dispatch its dispatch
 * @param combine its combine, BF16
 * @param seconds that both simulations took, side by side
 */
public record SimulatedPlan(
    SimulatedOperation dispatch, SimulatedOperation combine, double seconds) {
  /**
   * Simulates both operations; the same arguments give the same times.
   *
   * @param request as {@link org.ep4j.plan.Plan#of} accepts it
   * @throws InvalidArgumentException if the perturbations name ranks or ports that do not exist
   */
  public static SimulatedPlan of(
      MachineProfile profile, PlanRequest request, Perturbations perturbations) {
    perturbations.check(profile, request);
    Chunks chunks = new Chunks(request, PairTraffic.of(request));
    double hop = profile.value(ProfileConstant.HOP_US);
    long before = System.nanoTime();
    List<SimulatedOperation> both =
        Stream.of(false, true)
            .parallel()
            .map(
                combine -> {
                  Operation operation =
                      combine
                          ? Operation.combine(profile, request)
                          : Operation.dispatch(profile, request);
                  Rings rings = Rings.usual(chunks.chunkRows() * operation.rowBytes(), hop);
                  return simulate(operation, combine, perturbations, chunks, rings);
                })
            .toList();
    double seconds = (System.nanoTime() - before) / (double) TimeUnit.SECONDS.toNanos(1);
    return new SimulatedPlan(both.getFirst(), both.getLast(), seconds);
  }

  /**
   * Simulates an operation.
   *
   * @param combine whether rows return
   */
  static SimulatedOperation simulate(
      Operation operation,
      boolean combine,
      Perturbations perturbations,
      Chunks chunks,
      Rings rings) {
    Servers servers = new Servers(operation, perturbations);
    long events = run(operation, combine, servers, chunks, rings);
    return servers.result(events, chunks.chunkRows());
  }

  /** Lets all rows pass the servers; returns the number of events. */
  static long run(
      Operation operation, boolean combine, Servers servers, Chunks chunks, Rings rings) {
    PlanRequest request = operation.request();
    EventQueue queue = new EventQueue();
    if (request.kind() == PlanKind.LL || request.nodes() == 1) {
      new DirectExchange(operation, combine, queue, servers, chunks).run();
    } else if (combine) {
      new InternodeCombine(operation, queue, servers, chunks, rings).run();
    } else {
      new InternodeDispatch(operation, queue, servers, chunks, rings).run();
    }
    return queue.count();
  }
}
