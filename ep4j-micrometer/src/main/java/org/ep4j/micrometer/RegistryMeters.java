package org.ep4j.micrometer;

import io.micrometer.core.instrument.FunctionCounter;
import io.micrometer.core.instrument.Gauge;
import io.micrometer.core.instrument.Meter;
import io.micrometer.core.instrument.MeterRegistry;
import io.micrometer.core.instrument.Tags;
import io.micrometer.core.instrument.Timer;
import java.util.EnumMap;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.TimeUnit;
import java.util.function.ToDoubleFunction;
import org.ep4j.error.ErrorCode;
import org.ep4j.error.IllegalUseException;

/**
 * The meters of one buffer in one registry, which holds their values strongly through gauges.
 * {@link #record} is called by the thread that uses the buffer; all else under the lock of the
 * owner.
 */
final class RegistryMeters {
  private final MeterRegistry registry;
  private final Tags common;
  private final Readings source;

  /** Meters of other buffers; empty after {@link #bound}. */
  private final Set<Meter> others;

  private final Set<Meter> mine = new HashSet<>();
  private final Map<Tags, Meter> optional = new HashMap<>();
  private final Map<Call, Timer> timers = new EnumMap<>(Call.class);

  /**
   * Nothing yet.
   *
   * @param common tags of all meters
   */
  RegistryMeters(MeterRegistry registry, Tags common, Readings source) {
    this.registry = registry;
    this.common = common;
    this.source = source;
    others = new HashSet<>(registry.getMeters());
  }

  void timer(Call call) {
    BufferMeter meter = call.timer;
    Timer timer =
        Timer.builder(meter.id)
            .description(meter.meaning)
            .tags(common.and(call.tags()))
            .register(registry);
    add(timer);
    timers.put(call, timer);
  }

  void gauge(BufferMeter meter, Tags tags, ToDoubleFunction<Readings> value) {
    add(
        Gauge.builder(meter.id, source, value)
            .description(meter.meaning)
            .baseUnit(meter.unit.isEmpty() ? null : meter.unit)
            .tags(common.and(tags))
            .strongReference(true)
            .register(registry));
  }

  Meter counter(BufferMeter meter, Tags tags, ToDoubleFunction<Readings> value) {
    return add(
        FunctionCounter.builder(meter.id, source, value)
            .description(meter.meaning)
            .baseUnit(meter.unit)
            .tags(common.and(tags))
            .register(registry));
  }

  /** Ends the registration of all meters whose tags are known. */
  void bound() {
    others.clear();
  }

  private <M extends Meter> M add(M meter) {
    if (others.contains(meter)) {
      throw new IllegalUseException(
          ErrorCode.METRICS_STATE,
          "the registry has a meter "
              + meter.getId()
              + " of another buffer: give each buffer of a process tags of its own");
    }
    mine.add(meter);
    return meter;
  }

  /**
   * Registers or removes a counter whose tags are not known when the meters are bound.
   *
   * @param tags different for each of them
   */
  void counterWhile(
      boolean wanted, BufferMeter meter, Tags tags, ToDoubleFunction<Readings> value) {
    Meter there = optional.get(tags);
    if (wanted && there == null) {
      optional.put(tags, counter(meter, tags, value));
    } else if (!wanted && there != null) {
      optional.remove(tags);
      mine.remove(there);
      registry.remove(there);
    }
  }

  /** Records the time of a call. Allocates nothing. */
  void record(Call call, long nanos) {
    Timer timer = timers.get(call);
    if (timer != null) {
      timer.record(nanos, TimeUnit.NANOSECONDS);
    }
  }

  void remove() {
    mine.forEach(registry::remove);
    mine.clear();
    optional.clear();
  }
}
