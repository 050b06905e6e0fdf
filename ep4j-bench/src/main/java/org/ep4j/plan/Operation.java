package org.ep4j.plan;

import java.util.Map;

/**
 * One operation of a request on a machine.
 *
 * @param profile of the machine
 * @param request what is planned
 * @param rowBytes bytes of a row that it moves
 * @param nvlinkGbps NVLink rate of these rows, GB/s
 */
record Operation(MachineProfile profile, PlanRequest request, int rowBytes, double nvlinkGbps) {
  static Operation dispatch(MachineProfile profile, PlanRequest request) {
    PlanDType dtype = request.dtype();
    int rowBytes =
        request.kind() == PlanKind.LL
            ? dtype.lowLatencyBytes(request.hidden())
            : dtype.rowBytes(request.hidden());
    return new Operation(
        profile, request, rowBytes, profile.value(ProfileConstant.NVLINK_DISPATCH_GBPS));
  }

  /** A combine moves BF16. */
  static Operation combine(MachineProfile profile, PlanRequest request) {
    return new Operation(
        profile,
        request,
        PlanDType.BF16.rowBytes(request.hidden()),
        profile.value(ProfileConstant.NVLINK_COMBINE_GBPS));
  }

  /** The value of a constant of the machine. */
  double value(ProfileConstant constant) {
    return profile.value(constant);
  }

  /**
   * What is predicted.
   *
   * @param micros time of the kernels
   * @param bytes mean bytes of a rank, as published tables count them
   * @param candidates terms of which the largest is the limit
   * @param terms all terms
   */
  Prediction predicted(
      double micros, double bytes, Map<Term, Double> candidates, Map<Term, Double> terms) {
    return Prediction.of(micros, micros + value(ProfileConstant.CALL_US), bytes, candidates, terms);
  }
}
