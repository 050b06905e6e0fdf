package org.ep4j.rdma.verbs.ports;

import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.List;

/**
 * The request of a rank, exchanged before ports are assigned.
 *
 * @param host identifier of the host, equal for ranks that see the same ports
 * @param named whether the settings name its ports; then the rank takes all of them in this order
 * @param nearest number of its ports at the minimum distance
 * @param ports names of usable ports, closest first
 */
public record PortRequest(String host, boolean named, int nearest, List<String> ports) {
  /** Copies the list. */
  public PortRequest {
    ports = List.copyOf(ports);
  }

  byte[] bytes() {
    String text = host + "\n" + named + "\n" + nearest + "\n" + String.join(",", ports);
    return text.getBytes(StandardCharsets.UTF_8);
  }

  static PortRequest of(byte[] bytes) {
    String[] lines = new String(bytes, StandardCharsets.UTF_8).split("\n", -1);
    return new PortRequest(
        lines[0],
        Boolean.parseBoolean(lines[1]),
        Integer.parseInt(lines[2]),
        Arrays.asList(lines[3].split(",", -1)));
  }
}
