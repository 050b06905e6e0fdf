package org.ep4j.jlama;

import java.nio.ByteBuffer;
import java.nio.LongBuffer;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Comparator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.function.ToDoubleFunction;

/**
 * A decode step of a rank and its parts, in nanoseconds.
 *
 * <p>A call of ep4j waits from its entry to the entry of the last rank whose rows it takes; the
 * rest of the call is ep4j's own time, with what wakes the rank. The call of the last rank has no
 * wait.
 *
 * @param step from the embedding of a token to the choice of the next one
 * @param other attention, norms, router, embedding, choice of a token
 * @param experts products of this rank's experts, with the copies into Jlama's tensors
 * @param waiting for ranks that enter a call later
 * @param agreement of the ranks on the step, without waiting
 * @param dispatch without waiting
 * @param combine without waiting
 * @param copies of rows between Java arrays and ep4j's tensors, rounding to BF16
 */
record StepParts(
    double step,
    double other,
    double experts,
    double waiting,
    double agreement,
    double dispatch,
    double combine,
    double copies) {

  /** Of all that a world adds to a step but the wait for its slowest rank. */
  double overhead() {
    return (agreement + dispatch + combine + copies) / step;
  }

  /**
   * The parts of all steps of all ranks.
   *
   * @param logs {@link StepLog#toBytes} of each rank
   */
  static List<StepParts> of(byte[][] logs, int layers) {
    long[][][] steps = new long[logs.length][][];
    Arrays.setAll(steps, rank -> StepLog.steps(logs[rank], layers));
    List<StepParts> parts = new ArrayList<>();
    for (int rank = 0; rank < steps.length; rank++) {
      for (int number = 0; number < steps[rank].length; number++) {
        parts.add(of(steps, rank, number, layers));
      }
    }
    return parts;
  }

  /** The steps of Jlama's own model, which logs their begin and end alone. */
  static List<StepParts> ofJlama(byte[] log) {
    List<StepParts> parts = new ArrayList<>();
    LongBuffer words = ByteBuffer.wrap(log).asLongBuffer();
    while (words.hasRemaining()) {
      double step = -words.get() + words.get();
      parts.add(new StepParts(step, step, 0, 0, 0, 0, 0, 0));
    }
    return parts;
  }

  private static StepParts of(long[][][] steps, int rank, int number, int layers) {
    long[] own = steps[rank][number];
    long everyone = (1L << steps.length) - 1;
    long agreed = lastEntry(steps, number, 1, everyone);
    long waiting = agreed - own[1];
    long dispatch = 0;
    long combine = 0;
    long experts = 0;
    long exchange = 0;
    long copies = 0;
    for (int layer = 0; layer < layers; layer++) {
      int at = 1 + StepLog.AGREEMENT + layer * StepLog.LAYER;
      long dispatched = lastEntry(steps, number, at + StepLog.DISPATCH_ENTRY, everyone);
      long sources = own[at + StepLog.SOURCES] | 1L << rank;
      long combined = lastEntry(steps, number, at + StepLog.COMBINE_ENTRY, sources);
      waiting += dispatched - own[at + StepLog.DISPATCH_ENTRY];
      waiting += combined - own[at + StepLog.COMBINE_ENTRY];
      dispatch += own[at + StepLog.DISPATCH_EXIT] - dispatched;
      combine += own[at + StepLog.COMBINE_EXIT] - combined;
      experts += own[at + StepLog.EXPERTS];
      exchange += own[at + StepLog.EXIT] - own[at + StepLog.ENTRY];
      copies +=
          own[at + StepLog.DISPATCH_ENTRY]
              - own[at + StepLog.ENTRY]
              + own[at + StepLog.COMBINE_ENTRY]
              - own[at + StepLog.DISPATCH_EXIT]
              + own[at + StepLog.EXIT]
              - own[at + StepLog.COMBINE_EXIT]
              - own[at + StepLog.EXPERTS];
    }
    long step = own[own.length - 1] - own[0];
    return new StepParts(
        step,
        step - (own[2] - own[1]) - exchange,
        experts,
        waiting,
        own[2] - agreed,
        dispatch,
        combine,
        copies);
  }

  private static long lastEntry(long[][][] steps, int number, int at, long ranks) {
    long last = Long.MIN_VALUE;
    for (int rank = 0; rank < steps.length; rank++) {
      if ((ranks >> rank & 1) != 0) {
        last = Math.max(last, steps[rank][number][at]);
      }
    }
    return last;
  }

  /** The mean of those steps whose duration is neither in the first nor in the last quarter. */
  static StepParts middle(List<StepParts> steps) {
    List<StepParts> sorted = new ArrayList<>(steps);
    sorted.sort(Comparator.comparingDouble(StepParts::step));
    List<StepParts> half = sorted.subList(steps.size() / 4, steps.size() - steps.size() / 4);
    return new StepParts(
        mean(half, StepParts::step),
        mean(half, StepParts::other),
        mean(half, StepParts::experts),
        mean(half, StepParts::waiting),
        mean(half, StepParts::agreement),
        mean(half, StepParts::dispatch),
        mean(half, StepParts::combine),
        mean(half, StepParts::copies));
  }

  private static double mean(List<StepParts> steps, ToDoubleFunction<StepParts> part) {
    return steps.stream().mapToDouble(part).average().orElse(0);
  }

  /** For JSON: microseconds; the overhead is a share of the step. */
  Map<String, Double> values() {
    Map<String, Double> values = new LinkedHashMap<>();
    values.put("step_us", step / 1e3);
    values.put("other_us", other / 1e3);
    values.put("experts_us", experts / 1e3);
    values.put("waiting_us", waiting / 1e3);
    values.put("agreement_us", agreement / 1e3);
    values.put("dispatch_us", dispatch / 1e3);
    values.put("combine_us", combine / 1e3);
    values.put("copies_us", copies / 1e3);
    values.put("overhead", overhead());
    return values;
  }
}
