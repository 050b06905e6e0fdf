package org.ep4j.rdma.verbs;

import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.List;

/**
 * What a rank tells the others before ports are shared out.
 *
 * @param host the same for ranks that see the same ports
 * @param named whether the settings name its ports: then it takes all of them, in this order
 * @param nearest how many of its ports no other is nearer than
 * @param ports names of the ports that it can use, nearest first
 */
record PortRequest(String host, boolean named, int nearest, List<String> ports) {
  /** Keeps a copy. */
  PortRequest {
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
