package org.ep4j.plan;

import org.ep4j.error.ErrorCode;
import org.ep4j.error.InvalidArgumentException;

/**
 * What a machine is predicted to do with a request.
 *
 * @param dispatch its dispatch
 * @param combine its combine, BF16
 * @param imbalance received rows of the busiest rank over their mean
 */
public record Plan(Prediction dispatch, Prediction combine, double imbalance) {
  /**
   * Predicts both operations.
   *
   * @throws InvalidArgumentException if the machine has fewer SMs, or its nodes fewer GPUs, than
   *     the request asks for
   */
  public static Plan of(MachineProfile profile, PlanRequest request) {
    check(profile, ProfileConstant.SMS, "sms", request.sms());
    check(profile, ProfileConstant.RANKS_PER_NODE, "ranks-per-node", request.ranksPerNode());
    return of(profile, request, Traffic.of(request));
  }

  /** The same for traffic that is known, which depends on neither SMs nor the machine. */
  static Plan of(MachineProfile profile, PlanRequest request, Traffic traffic) {
    return new Plan(
        predict(Operation.dispatch(profile, request), traffic),
        predict(Operation.combine(profile, request), traffic),
        traffic.imbalance());
  }

  private static Prediction predict(Operation operation, Traffic traffic) {
    return switch (operation.request().kind()) {
      case HT -> HighThroughputModel.predict(operation, traffic);
      case LL -> LowLatencyModel.predict(operation, traffic);
    };
  }

  private static void check(
      MachineProfile profile, ProfileConstant limit, String field, int value) {
    int greatest = profile.count(limit);
    if (value > greatest) {
      throw new InvalidArgumentException(
          ErrorCode.PLAN_SHAPE,
          field,
          String.valueOf(value),
          "1.." + greatest + " on " + profile.name(),
          "lower it, or name another machine");
    }
  }
}
