package org.ep4j.plan.simulation;

import org.ep4j.plan.MachineProfile;
import org.ep4j.plan.Operation;
import org.ep4j.plan.PlanKind;
import org.ep4j.plan.PlanRequest;
import org.ep4j.plan.ProfileConstant;

/**
 * All resources of all ranks. Each serves in the order of calls, which is the order of arrival:
 * what it is asked for later starts after all that it was asked for before.
 */
final class Servers {
  private static final Resource[] RESOURCES = Resource.values();

  private final Operation operation;
  private final Perturbations perturbations;

  /** Index: rank x resources + resource. */
  private final double[] rowMicros;

  private final double[] free;
  private final double[] busy;
  private double end;
  private double delivered;

  Servers(Operation operation, Perturbations perturbations) {
    this.operation = operation;
    this.perturbations = perturbations;
    int ranks = operation.request().ranks();
    rowMicros = new double[ranks * RESOURCES.length];
    free = new double[rowMicros.length];
    busy = new double[rowMicros.length];
    for (int rank = 0; rank < ranks; rank++) {
      for (Resource resource : RESOURCES) {
        rowMicros[index(resource, rank)] = rowMicros(resource, rank);
      }
    }
  }

  private double rowMicros(Resource resource, int rank) {
    MachineProfile profile = operation.profile();
    PlanRequest request = operation.request();
    boolean lowLatency = request.kind() == PlanKind.LL;
    double kilobytes = operation.rowBytes() / 1e3;
    return switch (resource) {
      case SM_OUT, SM_IN ->
          lowLatency
              ? 0
              : operation.smRowMicros() / request.sms() * perturbations.kernelFactor(rank);
      case NVLINK_OUT, NVLINK_IN -> kilobytes / operation.nvlinkGbps();
      case NIC_OUT, NIC_IN -> {
        double bytes = kilobytes / profile.nicGbps();
        double message = lowLatency ? 1 / operation.value(ProfileConstant.NIC_MMSGS) : 0;
        yield Math.max(bytes, message)
            / perturbations.nicShare(rank, profile.count(ProfileConstant.NIC_PORTS));
      }
      // A row is written once and read once.
      case MEMORY_OUT, MEMORY_IN -> 2 * kilobytes / operation.value(ProfileConstant.MEMORY_GBPS);
    };
  }

  private static int index(Resource resource, int rank) {
    return rank * RESOURCES.length + resource.ordinal();
  }

  /**
   * The start of the kernels of a rank, microseconds.
   *
   * @param fixed what passes before a kernel moves its first row, if nothing is slow
   */
  double start(int rank, double fixed) {
    return perturbations.lateMicros(rank) + fixed * perturbations.kernelFactor(rank);
  }

  /** The resource serves nothing before {@code micros}; nor does the operation end before. */
  void closeUntil(Resource resource, int rank, double micros) {
    free[index(resource, rank)] = micros;
    end = Math.max(end, micros);
  }

  /** Serves rows that are ready at {@code ready}; returns when they have passed. */
  double serve(Resource resource, int rank, double ready, double rows) {
    int index = index(resource, rank);
    double micros = rows * rowMicros[index];
    double done = Math.max(ready, free[index]) + micros;
    free[index] = done;
    busy[index] += micros;
    return done;
  }

  /** Time that a resource takes for rows. */
  double micros(Resource resource, int rank, double rows) {
    return rows * rowMicros[index(resource, rank)];
  }

  /** Counts rows that have arrived at their last place. */
  void deliver(double at, double rows) {
    delivered += rows;
    end = Math.max(end, at);
  }

  /** Time that a resource has served. */
  double busyMicros(Resource resource, int rank) {
    return busy[index(resource, rank)];
  }

  /** What was simulated, with the busiest resource. */
  SimulatedOperation result(long events, double chunkRows) {
    int busiest = 0;
    for (int index = 1; index < busy.length; index++) {
      if (busy[index] > busy[busiest]) {
        busiest = index;
      }
    }
    return new SimulatedOperation(
        end,
        RESOURCES[busiest % RESOURCES.length],
        busiest / RESOURCES.length,
        end == 0 ? 0 : busy[busiest] / end,
        delivered,
        events,
        chunkRows);
  }
}
