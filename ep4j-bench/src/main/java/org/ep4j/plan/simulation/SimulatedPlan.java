package org.ep4j.plan.simulation;

import java.util.concurrent.TimeUnit;
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
 */
public record SimulatedPlan(SimulatedOperation dispatch, SimulatedOperation combine) {
  /**
   * Simulates both operations; the same arguments give the same times.
   *
   * @param request as {@link org.ep4j.plan.Plan#of} accepts it
   * @throws InvalidArgumentException if the perturbations name ranks or ports that do not exist
   */
  public static SimulatedPlan of(
      MachineProfile profile, PlanRequest request, Perturbations perturbations) {
    perturbations.check(profile, request);
    PairTraffic traffic = PairTraffic.of(request);
    Chunks chunks = new Chunks(request, traffic);
    return of(profile, request, perturbations, chunks);
  }

  static SimulatedPlan of(
      MachineProfile profile, PlanRequest request, Perturbations perturbations, Chunks chunks) {
    double hop = profile.value(ProfileConstant.HOP_US);
    Operation dispatch = Operation.dispatch(profile, request);
    Operation combine = Operation.combine(profile, request);
    return new SimulatedPlan(
        simulate(dispatch, false, perturbations, chunks, rings(dispatch, chunks, hop)),
        simulate(combine, true, perturbations, chunks, rings(combine, chunks, hop)));
  }

  private static Rings rings(Operation operation, Chunks chunks, double hop) {
    return Rings.usual(chunks.chunkRows() * operation.rowBytes(), hop);
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
    long before = System.nanoTime();
    PlanRequest request = operation.request();
    EventQueue queue = new EventQueue();
    Servers servers = new Servers(operation, perturbations);
    if (request.kind() == PlanKind.LL || request.nodes() == 1) {
      new DirectExchange(operation, combine, queue, servers, chunks).run();
    } else if (combine) {
      new InternodeCombine(operation, queue, servers, chunks, rings).run();
    } else {
      new InternodeDispatch(operation, queue, servers, chunks, rings).run();
    }
    double seconds = (System.nanoTime() - before) / (double) TimeUnit.SECONDS.toNanos(1);
    return servers.result(queue.count(), seconds, chunks.chunkRows());
  }
}
