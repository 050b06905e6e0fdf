package org.ep4j.cuda.internode;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.ep4j.config.BufferConfig;
import org.ep4j.config.WireName;
import org.ep4j.config.WireOptions;
import org.ep4j.cuda.internode.proxy.ProxyConfig;
import org.ep4j.error.ErrorCode;
import org.ep4j.error.InvalidArgumentException;
import org.ep4j.group.Group;
import org.ep4j.wire.Wire;
import org.ep4j.wire.WireConfig;
import org.ep4j.wire.WireEnvironment;
import org.ep4j.wire.WireException;
import org.jspecify.annotations.Nullable;

/**
 * How a buffer's wire and proxy are opened.
 *
 * @param wire kind of wire, or {@link WireName#STAGED}
 * @param options settings of the wire
 * @param threads threads of the proxy
 * @param cores cores of the threads; null if unset
 * @param timeout limit of the opening
 */
record InternodeWire(
    String wire,
    WireOptions options,
    int threads,
    @Nullable List<Integer> cores,
    Duration timeout) {
  private static final int RINGS_PER_THREAD = 4;
  private static final int COMMANDS = 2048;

  static InternodeWire of(BufferConfig config, Map<String, String> variables) {
    return of(config.wire(), config.wireOptions(), config.timeout(), variables);
  }

  static InternodeWire of(
      String wire, WireOptions options, Duration timeout, Map<String, String> variables) {
    String threads = variables.getOrDefault(ProxyConfig.THREADS_VARIABLE, "1").strip();
    String cores = variables.getOrDefault(ProxyConfig.CORES_VARIABLE, "").strip();
    return new InternodeWire(
        wire, options, threads(threads), cores.isEmpty() ? null : numbers(cores), timeout);
  }

  private static int threads(String text) {
    int threads = number(ProxyConfig.THREADS_VARIABLE, text);
    if (threads < 1 || threads > ProxyConfig.MAX_THREADS) {
      throw refused(ProxyConfig.THREADS_VARIABLE, text);
    }
    return threads;
  }

  private static List<Integer> numbers(String text) {
    List<Integer> numbers = new ArrayList<>();
    for (String part : text.equals("none") ? new String[0] : text.split(",", -1)) {
      numbers.add(number(ProxyConfig.CORES_VARIABLE, part.strip()));
    }
    return numbers;
  }

  private static int number(String variable, String text) {
    try {
      return Integer.parseInt(text);
    } catch (NumberFormatException e) {
      throw refused(variable, text);
    }
  }

  private static InvalidArgumentException refused(String variable, String text) {
    return new InvalidArgumentException(
        ErrorCode.PROXY_CONFIG,
        variable,
        text,
        variable.equals(ProxyConfig.THREADS_VARIABLE)
            ? "1 to " + ProxyConfig.MAX_THREADS
            : "numbers of cores, or none",
        "unset it");
  }

  /**
   * The configuration of the wire, with as many lanes as it chooses or the environment sets. Ranks
   * may have different variables, so this can fail on one of them.
   *
   * @param bus address of the GPU, used to choose nearby ports of the wire
   */
  WireConfig config(Group group, int counters, String bus) {
    String kind = wire;
    if (wire.equals(WireName.STAGED)) {
      kind = group.inProcess() ? WireName.INPROC : WireName.SHM;
    }
    WireConfig config =
        WireConfig.builder()
            .wire(kind)
            .options(options)
            .progressContexts(threads)
            .counters(counters)
            .timeout(timeout)
            .affinity(bus)
            .build();
    config.options().lanes().ifPresent(this::requireEqualLanes);
    return config;
  }

  /** Kernels name the lanes of each thread by the same numbers. */
  private void requireEqualLanes(int lanes) {
    int max = threads * ProxyConfig.MAX_LANES;
    if (lanes % threads != 0 || lanes > max) {
      throw new InvalidArgumentException(
          ErrorCode.PROXY_CONFIG,
          "lanes (" + WireEnvironment.LANES + ")",
          String.valueOf(lanes),
          "a multiple of " + ProxyConfig.THREADS_VARIABLE + " (" + threads + "), at most " + max,
          "leave them out");
    }
  }

  void requireReach(Wire opened, boolean puts) {
    if (puts && wire.equals(WireName.STAGED)) {
      throw new WireException(
          ErrorCode.WIRE_FAILED,
          "wire '"
              + wire
              + "' needs memory that all ranks map, which '"
              + opened.name()
              + "' lacks: use another wire");
    }
  }

  /** Lanes of each thread to a rank, which kernels use in turn. */
  int lanesPerThread(Wire opened) {
    return Math.min(ProxyConfig.MAX_LANES, opened.config().lanes() / threads);
  }

  /**
   * How the proxy is opened.
   *
   * @param bus address of the GPU
   * @param alone whether no other rank uses this GPU and its cores
   * @param flushCounters words that count flushes
   */
  ProxyConfig proxy(String bus, boolean alone, int flushCounters) {
    List<Integer> own = cores;
    if (own == null) {
      own = alone ? new ProxyCores().nearest(bus, threads) : List.of();
    }
    return proxy(own, flushCounters);
  }

  /** The same without a choice of cores, which the sizes of its memory do not depend on. */
  ProxyConfig proxy(int flushCounters) {
    return proxy(List.of(), flushCounters);
  }

  private ProxyConfig proxy(List<Integer> own, int flushCounters) {
    return new ProxyConfig(
        threads, RINGS_PER_THREAD * threads, COMMANDS, flushCounters, own, timeout);
  }
}
