package org.ep4j.bench;

import java.util.List;
import java.util.TreeSet;
import org.ep4j.cuda.driver.CudaDevice;
import org.ep4j.cuda.probe.LinkProbe;
import org.ep4j.cuda.probe.ProbeLoad;
import org.ep4j.group.Group;

/**
 * Time in which the GPUs push the rows of an operation without a protocol: the best of several
 * numbers of SMs. Rank 0 measures on all GPUs while the other ranks wait.
 */
public final class DeviceCeiling {
  private static final int REPETITIONS = 15;
  private static final int UNIT = 16;

  /** These numbers of SMs saturate the links; more SMs only add contention. */
  private static final List<Integer> MANY = List.of(32, 64);

  private final Group group;
  private final CommandAgreement agreement;
  private final TreeSet<Integer> sms = new TreeSet<>(MANY);

  public DeviceCeiling(Group group, CommandAgreement agreement, List<Integer> wanted) {
    this.group = group;
    this.agreement = agreement;
    wanted.stream().filter(number -> number > 0).forEach(sms::add);
  }

  /**
   * Microseconds for {@code rows} rows from every rank to every rank, including itself; NaN if
   * ranks share GPUs, or if rank 0 does not see all GPUs. Collective.
   */
  public double micros(long rowBytes, double rows) {
    agreement.barrier();
    double best = Double.NaN;
    if (group.rank() == 0 && group.size() <= CudaDevice.count() && rows >= 1) {
      int length = Math.toIntExact((rowBytes + UNIT - 1) / UNIT * UNIT);
      ProbeLoad load = new ProbeLoad(length, (int) Math.round(rows), true);
      try (LinkProbe probe = LinkProbe.open(group.size())) {
        for (int number : sms) {
          double median = probe.measure(load, number, REPETITIONS).median();
          best = Double.isNaN(best) ? median : Math.min(best, median);
        }
      }
    }
    return Double.longBitsToDouble(
        agreement.numbers(new long[] {Double.doubleToRawLongBits(best)})[0][0]);
  }
}
