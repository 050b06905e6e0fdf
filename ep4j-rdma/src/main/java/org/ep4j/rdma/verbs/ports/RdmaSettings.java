package org.ep4j.rdma.verbs.ports;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.ep4j.config.WireOptions;
import org.ep4j.error.ErrorCode;
import org.ep4j.error.InvalidArgumentException;
import org.jspecify.annotations.Nullable;

/**
 * Values of the variables {@code EP4J_IB_*}. Equal on all ranks, except for the ports.
 *
 * @param ports names of ports, {@code device:number}, one list per local rank modulo the number of
 *     lists; empty for a choice by distance
 * @param gidIndex index of the address of a port; -1 (default) selects the first RoCE v2 address
 *     with IPv4
 * @param serviceLevel service level of all connections, 0 by default
 * @param trafficClass traffic class of all connections, 0 by default
 * @param queuePairsPerPort queue pairs to each peer on each port, per progress context; 1 by
 *     default
 * @param depth requests that a queue pair holds in each direction; 256 by default
 * @param timeout exponent of the acknowledgement timeout of a packet: 4 µs * 2^timeout; 16 (0.27 s)
 *     by default
 * @param retries retransmissions of a packet before its queue pair is lost; 6 by default. With 7,
 *     Soft-RoCE retransmits without end: a queue pair over a path that is cut is then never lost
 * @param gpuDirect whether ports access GPU memory; off by default, so that GPU traffic passes
 *     through host memory
 */
public record RdmaSettings(
    List<List<String>> ports,
    int gidIndex,
    int serviceLevel,
    int trafficClass,
    int queuePairsPerPort,
    int depth,
    int timeout,
    int retries,
    boolean gpuDirect) {
  /**
   * Ports: {@code mlx5_0:1,mlx5_1:1}; lists for several local ranks are separated by semicolons.
   */
  public static final String HCA = "EP4J_IB_HCA";

  /** Index of the address of a port. */
  public static final String GID_INDEX = "EP4J_IB_GID_INDEX";

  /** Service level. */
  public static final String SERVICE_LEVEL = "EP4J_IB_SL";

  /** Traffic class. */
  public static final String TRAFFIC_CLASS = "EP4J_IB_TRAFFIC_CLASS";

  /** Queue pairs to each peer on each port, per progress context. */
  public static final String QPS_PER_PORT = "EP4J_IB_QPS_PER_PORT";

  /** Requests that a queue pair holds. */
  public static final String QP_DEPTH = "EP4J_IB_QP_DEPTH";

  /** Exponent of the acknowledgement time. */
  public static final String TIMEOUT = "EP4J_IB_TIMEOUT";

  /** Retransmissions of a packet. */
  public static final String RETRY_COUNT = "EP4J_IB_RETRY_COUNT";

  /** Whether ports access GPU memory: 1, or 0. */
  public static final String GPUDIRECT = "EP4J_IB_GPUDIRECT";

  /** The library libibverbs: a file, or a name that the system looks up. */
  public static final String LIBRARY = "EP4J_IB_LIBRARY";

  /** Maximum number of ports of a rank. */
  public static final int MAX_PORTS = 8;

  /** The default settings. */
  public static final RdmaSettings DEFAULTS = of(Map.of());

  /** Checks the values. */
  public RdmaSettings {
    ports = ports.stream().map(List::copyOf).toList();
    for (List<String> list : ports) {
      if (list.size() > MAX_PORTS) {
        throw new InvalidArgumentException(
            ErrorCode.BAD_RDMA_PORTS,
            HCA,
            list.size() + " ports",
            "at most " + MAX_PORTS + " for a rank",
            "separate the lists of several local ranks by semicolons");
      }
    }
    range(GID_INDEX, gidIndex, -1, 255);
    range(SERVICE_LEVEL, serviceLevel, 0, 15);
    range(TRAFFIC_CLASS, trafficClass, 0, 255);
    range(QPS_PER_PORT, queuePairsPerPort, 1, WireOptions.MAX_QUEUE_PAIRS);
    range(QP_DEPTH, depth, 16, 16384);
    range(TIMEOUT, timeout, 1, 31);
    range(RETRY_COUNT, retries, 0, 7);
  }

  /**
   * Reads the variables.
   *
   * @throws InvalidArgumentException if a value is invalid; names the variable and the remedy
   */
  public static RdmaSettings of(Map<String, String> variables) {
    return new RdmaSettings(
        ports(variables.get(HCA)),
        number(variables, GID_INDEX, -1),
        number(variables, SERVICE_LEVEL, 0),
        number(variables, TRAFFIC_CLASS, 0),
        number(variables, QPS_PER_PORT, 1),
        number(variables, QP_DEPTH, 256),
        number(variables, TIMEOUT, 16),
        number(variables, RETRY_COUNT, 6),
        isOn(variables, GPUDIRECT));
  }

  /** These settings with the options of a wire, which win. */
  public RdmaSettings with(WireOptions options) {
    return new RdmaSettings(
        ports,
        gidIndex,
        options.serviceLevel().orElse(serviceLevel),
        options.trafficClass().orElse(trafficClass),
        options.queuePairs().orElse(queuePairsPerPort),
        depth,
        timeout,
        retries,
        options.gpuDirect().orElse(gpuDirect));
  }

  /** The options of a wire with these settings. */
  public WireOptions applied(WireOptions options) {
    return options.toBuilder()
        .serviceLevel(serviceLevel)
        .trafficClass(trafficClass)
        .queuePairs(queuePairsPerPort)
        .gpuDirect(gpuDirect)
        .build();
  }

  /** Names of the ports of a rank; empty for a choice by distance. */
  public List<String> portsOf(int localRank) {
    return ports.isEmpty() ? List.of() : ports.get(localRank % ports.size());
  }

  private static List<List<String>> ports(@Nullable String value) {
    List<List<String>> lists = new ArrayList<>();
    if (value == null || value.isBlank()) {
      return lists;
    }
    for (String part : value.split(";", -1)) {
      List<String> names = new ArrayList<>();
      for (String item : part.split(",", -1)) {
        names.add(port(item.strip(), value));
      }
      lists.add(names);
    }
    return lists;
  }

  private static String port(String item, String value) {
    String name = item.contains(":") ? item : item + ":1";
    if (!name.matches("[A-Za-z0-9_.-]+:[1-9][0-9]{0,2}")) {
      throw new InvalidArgumentException(
          ErrorCode.BAD_RDMA_PORTS,
          HCA,
          "'" + value + "', with '" + item + "' in it",
          "a list of DEVICE or DEVICE:PORT",
          "write for example mlx5_0:1,mlx5_1:1; ./ep4j doctor lists the ports of this host");
    }
    return name;
  }

  private static boolean isOn(Map<String, String> variables, String name) {
    int value = number(variables, name, 0);
    range(name, value, 0, 1);
    return value == 1;
  }

  private static int number(Map<String, String> variables, String name, int otherwise) {
    String value = variables.get(name);
    if (value == null || value.isBlank()) {
      return otherwise;
    }
    try {
      return Integer.parseInt(value.strip());
    } catch (NumberFormatException e) {
      throw new InvalidArgumentException(
          ErrorCode.BAD_RDMA_SETTING,
          name,
          "'" + value + "'",
          "a whole number",
          "leave it out for the default");
    }
  }

  private static void range(String name, int value, int least, int max) {
    if (value < least || value > max) {
      throw new InvalidArgumentException(
          ErrorCode.BAD_RDMA_SETTING,
          name,
          String.valueOf(value),
          "from " + least + " to " + max,
          "leave it out for the default");
    }
  }
}
