package org.ep4j.plan.simulation;

import java.util.Collections;
import java.util.Map;
import java.util.TreeMap;
import org.ep4j.error.ErrorCode;
import org.ep4j.error.InvalidArgumentException;
import org.ep4j.plan.MachineProfile;
import org.ep4j.plan.PlanRequest;
import org.ep4j.plan.ProfileConstant;

/**
 * What differs from a machine on which all ranks are alike. Immutable.
 *
 * @param late microseconds by which the kernels of a rank start later
 * @param slowRanks factor by which the kernels of a rank take longer: their fixed time and what
 *     their SMs spend on a row
 * @param slowNics share of its rate that the NIC of a rank has left, both directions
 * @param lostPorts ports that the NIC of a rank has lost
 */
public record Perturbations(
    Map<Integer, Double> late,
    Map<Integer, Double> slowRanks,
    Map<Integer, Double> slowNics,
    Map<Integer, Integer> lostPorts) {
  /** All ranks are alike. */
  public static final Perturbations NONE =
      new Perturbations(Map.of(), Map.of(), Map.of(), Map.of());

  private static final double MAX_LATE = 1e7;
  private static final double MAX_FACTOR = 1000;
  private static final double MIN_SHARE = 0.001;

  /**
   * Checks the values.
   *
   * @throws InvalidArgumentException if one is out of range
   */
  public Perturbations {
    late = sorted(late);
    slowRanks = sorted(slowRanks);
    slowNics = sorted(slowNics);
    lostPorts = sorted(lostPorts);
    late.forEach((rank, micros) -> check("late", rank, micros, 0, MAX_LATE, " us"));
    slowRanks.forEach((rank, factor) -> check("slow-rank", rank, factor, 1, MAX_FACTOR, ""));
    slowNics.forEach((rank, share) -> check("slow-nic", rank, share, MIN_SHARE, 1, ""));
    lostPorts.forEach((rank, ports) -> check("lost-port", rank, ports, 1, Integer.MAX_VALUE, ""));
  }

  private static <V> Map<Integer, V> sorted(Map<Integer, V> map) {
    return Collections.unmodifiableMap(new TreeMap<>(map));
  }

  /** Whether all ranks are alike. */
  public boolean isEmpty() {
    return late.isEmpty() && slowRanks.isEmpty() && slowNics.isEmpty() && lostPorts.isEmpty();
  }

  /**
   * Checks that the request has these ranks, and the machine these ports.
   *
   * @throws InvalidArgumentException otherwise
   */
  void check(MachineProfile profile, PlanRequest request) {
    checkRanks("late", late, request);
    checkRanks("slow-rank", slowRanks, request);
    checkRanks("slow-nic", slowNics, request);
    checkRanks("lost-port", lostPorts, request);
    if (request.nodes() == 1 && !(slowNics.isEmpty() && lostPorts.isEmpty())) {
      throw bad(
          slowNics.isEmpty() ? "lost-port" : "slow-nic",
          "given for ranks of one node",
          "left out: no row crosses a NIC",
          "plan several nodes");
    }
    int ports = profile.count(ProfileConstant.NIC_PORTS);
    lostPorts.forEach(
        (rank, lost) -> {
          if (lost >= ports) {
            throw bad(
                "lost-port of rank " + rank,
                String.valueOf(lost),
                "less than the " + ports + " of " + profile.name(),
                "leave the rank a port, or use slow-nic");
          }
        });
  }

  private static void checkRanks(String option, Map<Integer, ?> values, PlanRequest request) {
    for (int rank : values.keySet()) {
      if (rank < 0 || rank >= request.ranks()) {
        throw bad(
            option + ": rank",
            String.valueOf(rank),
            "0.." + (request.ranks() - 1),
            "name a rank of the plan");
      }
    }
  }

  private static void check(
      String option, int rank, double value, double min, double max, String unit) {
    if (!(value >= min && value <= max)) {
      throw bad(
          option + " of rank " + rank,
          number(value),
          number(min) + ".." + number(max) + unit,
          "correct it");
    }
  }

  private static String number(double value) {
    return value == Math.rint(value) ? Long.toString((long) value) : Double.toString(value);
  }

  private static InvalidArgumentException bad(
      String field, String value, String limit, String remedy) {
    return new InvalidArgumentException(ErrorCode.PLAN_PERTURBATION, field, value, limit, remedy);
  }

  /** Microseconds by which the kernels of a rank start later. */
  double lateMicros(int rank) {
    return late.getOrDefault(rank, 0.0);
  }

  /** Factor of the kernels of a rank. */
  double kernelFactor(int rank) {
    return slowRanks.getOrDefault(rank, 1.0);
  }

  /** What the NIC of a rank has left of its rate. */
  double nicShare(int rank, int ports) {
    return slowNics.getOrDefault(rank, 1.0) * (ports - lostPorts.getOrDefault(rank, 0)) / ports;
  }
}
