package org.ep4j.plan;

import java.util.Map;
import org.ep4j.config.BackendName;

/**
 * One operation of a request on a machine.
 *
 * @param profile of the machine
 * @param request what is planned
 * @param rowBytes bytes of a row that it moves
 * @param nvlinkGbps NVLink rate of these rows, GB/s
 * @param smGbps rate at which an SM moves such rows on one node, GB/s
 */
public record Operation(
    MachineProfile profile, PlanRequest request, int rowBytes, double nvlinkGbps, double smGbps) {
  /** Rows of a chunk of high throughput, which moves through the pipeline as a unit. */
  public static final int CHUNK_ROWS = 32;

  /** The dispatch of a request. */
  public static Operation dispatch(MachineProfile profile, PlanRequest request) {
    PlanDType dtype = request.dtype();
    int rowBytes =
        request.kind() == PlanKind.LL
            ? dtype.lowLatencyBytes(request.hidden())
            : dtype.rowBytes(request.hidden());
    return new Operation(
        profile,
        request,
        rowBytes,
        profile.value(ProfileConstant.NVLINK_DISPATCH_GBPS),
        profile.value(ProfileConstant.SM_GBPS));
  }

  /** A combine moves BF16. */
  public static Operation combine(MachineProfile profile, PlanRequest request) {
    return new Operation(
        profile,
        request,
        PlanDType.BF16.rowBytes(request.hidden()),
        profile.value(ProfileConstant.NVLINK_COMBINE_GBPS),
        profile.value(ProfileConstant.SM_COMBINE_GBPS));
  }

  /** The value of a constant of the machine. */
  public double value(ProfileConstant constant) {
    return profile.value(constant);
  }

  /** Fixed time of a high-throughput kernel, and what the backend adds to it between nodes. */
  public double kernelMicros() {
    boolean nccl = request.nodes() > 1 && request.backend().equals(BackendName.NCCL);
    return value(ProfileConstant.KERNEL_US) + (nccl ? value(ProfileConstant.NCCL_US) : 0);
  }

  /** Other ranks of the node x what each of them adds to a high-throughput kernel. */
  public double incastMicros() {
    return (request.ranksPerNode() - 1) * value(ProfileConstant.PEER_US);
  }

  /**
   * What an SM spends on a row of high throughput: fixed + bytes / rate. Between nodes, rows are
   * those handed to nodes, on one node those to ranks.
   */
  public double smRowMicros() {
    boolean internode = request.nodes() > 1;
    double row = value(internode ? ProfileConstant.SM_NODE_ROW_US : ProfileConstant.SM_ROW_US);
    double rate = internode ? value(ProfileConstant.SM_NODE_GBPS) : smGbps;
    return row + rowBytes / rate / 1e3;
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
