package org.ep4j.rdma.verbs.ports;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Port choices on various servers, simulated as file trees like those below /sys. */
class PortDistanceTest {
  private static final RdmaSettings NOTHING_SET = RdmaSettings.DEFAULTS;

  @TempDir private Path system;

  @Test
  void everyGpuTakesTheTwoPortsBehindItsOwnSwitch() throws IOException {
    // One switch per socket: an upstream port, then a downstream port above each device.
    behindSwitch("pci0000:15", "0000:15:01.0/0000:16:00.0", 0, "0000:18", "0000:19", "mlx5_", 0);
    behindSwitch("pci0000:97", "0000:97:01.0/0000:98:00.0", 1, "0000:9a", "0000:9b", "mlx5_", 2);

    List<RdmaPort> ports = ports();
    assertThat(order(ports, "0000:18:00.0"))
        .isEqualTo("mlx5_0:1, mlx5_1:1 (3 bridges), then mlx5_2:1, mlx5_3:1 (farther or unknown)");
    assertThat(choices(ports, "0000:18:00.0", "0000:9A:00.0"))
        .containsExactly("mlx5_0:1,mlx5_1:1 from 0", "mlx5_2:1,mlx5_3:1 from 0");
    // The number of the rank does not matter.
    assertThat(choices(ports, "0000:9A:00.0", "00000000:18:00.0"))
        .containsExactly("mlx5_2:1,mlx5_3:1 from 0", "mlx5_0:1,mlx5_1:1 from 0");
  }

  private void behindSwitch(
      String bridge, String path, int node, String gpu, String nic, String name, int number)
      throws IOException {
    String upstream = bridge + "/" + path;
    String bus =
        path.substring(path.length() - "16:00.0".length(), path.length() - ":00.0".length());
    // Then the buses behind the downstream ports.
    String next = "0000:%02x:".formatted(Integer.parseInt(bus, 16) + 1);
    device(upstream + "/" + next + "00.0/" + gpu + ":00.0", node);
    for (int function = 0; function < 2; function++) {
      String hardware = upstream + "/" + next + "01.0/" + nic + ":00." + function;
      device(hardware, node);
      port(name + (number + function), hardware);
    }
  }

  @Test
  void gpusThatShareTwoDualPortNicsTakeDifferentOnes() throws IOException {
    String upstream = "pci0000:15/0000:15:01.0/0000:16:00.0/0000:17:0";
    for (int i = 0; i < 2; i++) {
      device(upstream + i + ".0/0000:1" + (8 + i) + ":00.0", 0);
      for (int function = 0; function < 2; function++) {
        String nic = upstream + (2 + i) + ".0/0000:1" + (i == 0 ? "a" : "b") + ":00." + function;
        device(nic, 0);
        port("mlx5_" + (2 * i + function), nic);
      }
    }
    assertThat(choices(ports(), "0000:18:00.0", "0000:19:00.0"))
        .containsExactly("mlx5_0:1,mlx5_1:1 from 0", "mlx5_2:1,mlx5_3:1 from 0");
  }

  @Test
  void gpusThatShareOneDualPortNicBeginWithDifferentPorts() throws IOException {
    String upstream = "pci0000:15/0000:15:01.0/0000:16:00.0/0000:17:0";
    for (int i = 0; i < 4; i++) {
      device(upstream + i + ".0/0000:1" + (8 + i) + ":00.0", 0);
    }
    String nic = upstream + "4.0/0000:1d:00.0";
    device(nic, 0);
    // One device with two ports, as reported for InfiniBand.
    port("mlx5_0", 1, nic);
    port("mlx5_0", 2, nic);
    assertThat(choices(ports(), "0000:18:00.0", "0000:19:00.0", "0000:1a:00.0"))
        .containsExactly(
            "mlx5_0:1,mlx5_0:2 from 0", "mlx5_0:1,mlx5_0:2 from 1", "mlx5_0:1,mlx5_0:2 from 0");
  }

  @Test
  void hostBridgesAndNumaNodesComeAfterSwitches() throws IOException {
    device("pci0000:15/0000:15:01.0/0000:16:00.0/0000:17:00.0/0000:18:00.0", 0);
    nic("far", "pci0000:97/0000:97:01.0/0000:98:00.0", 1);
    nic("root", "pci0000:15/0000:15:02.0/0000:1c:00.0", 0);
    nic("node", "pci0000:30/0000:30:01.0/0000:31:00.0", 0);
    nic("near", "pci0000:15/0000:15:01.0/0000:16:00.0/0000:17:01.0/0000:19:00.0", 0);
    nic("card", "pci0000:15/0000:15:01.0/0000:16:00.0/0000:17:02.0/0000:1a:00.0/0000:1b:00.0", 0);

    assertThat(order(ports(), "0000:18:00.0"))
        .isEqualTo(
            "near:1 (3 bridges), then card:1 (4 bridges), then root:1 (same host bridge), then"
                + " node:1 (same NUMA node), then far:1 (farther or unknown)");
    // One port is at the minimum distance, and all ranks take the same number.
    assertThat(choices(ports(), "0000:18:00.0")).containsExactly("near:1 from 0");
  }

  @Test
  void unknownDistancesAreNotClose() throws IOException {
    device("pci0000:15/0000:15:01.0/0000:18:00.0", -1);
    nic("a", "pci0000:30/0000:30:01.0/0000:31:00.0", -1);
    nic("b", "pci0000:97/0000:97:01.0/0000:98:00.0", 0);
    // Soft-RoCE has no device, and no location.
    port("rxe", 1, "");
    assertThat(order(ports(), "0000:18:00.0")).isEqualTo("a:1, b:1, rxe:1 (farther or unknown)");
    assertThat(choices(ports(), "0000:18:00.0", "0000:99:00.0", "nonsense"))
        .containsExactly("a:1,b:1 from 0", "a:1,rxe:1 from 1", "b:1,rxe:1 from 0");
    assertThat(choices(ports(), "", ""))
        .as("ranks without affinity")
        .containsExactly("a:1,b:1 from 0", "a:1,rxe:1 from 1");
  }

  @Test
  void cloudDevicesBehindSeparateBridgesAreOrderedByTheirNodes() throws IOException {
    device("LNXSYSTM:00/VMBUS:00/47505500-0001/pci0001:00/0001:00:00.0", 0);
    nic("mlx5_0", "LNXSYSTM:00/VMBUS:00/47505500-0002/pci0101:00/0101:00:00.0", 0);
    nic("mlx5_1", "LNXSYSTM:00/VMBUS:00/47505500-0003/pci0102:00/0102:00:00.0", 1);
    assertThat(order(ports(), "0001:00:00.0"))
        .isEqualTo("mlx5_0:1 (same NUMA node), then mlx5_1:1 (farther or unknown)");
  }

  @Test
  void ranksThatHaveFewerClosePortsMakeAllTakeFewer() {
    PortRequest two = new PortRequest("x", false, 2, List.of("a:1", "b:1", "c:1"));
    PortRequest one = new PortRequest("x", false, 1, List.of("c:1", "a:1", "b:1"));
    PortRequest named = new PortRequest("y", true, 2, List.of("d:1", "a:1"));
    assertThat(PortAssignment.of(List.of(two, one), 0))
        .isEqualTo(new PortAssignment(List.of("a:1"), 0));
    assertThat(PortAssignment.of(List.of(two, one), 1))
        .isEqualTo(new PortAssignment(List.of("c:1"), 0));
    // Named ports are used in their order, and set the number of ports of the other ranks.
    assertThat(PortAssignment.of(List.of(one, named), 0))
        .isEqualTo(new PortAssignment(List.of("a:1", "c:1"), 0));
    assertThat(PortAssignment.of(List.of(one, named), 1))
        .isEqualTo(new PortAssignment(List.of("d:1", "a:1"), 0));
  }

  @Test
  void ranksOfOtherHostsDoNotOccupyPorts() {
    PortRequest here = new PortRequest("here", false, 2, List.of("a:1", "b:1"));
    PortRequest there = new PortRequest("there", false, 2, List.of("a:1", "b:1"));
    assertThat(PortAssignment.of(List.of(there, here), 1).first()).isZero();
    assertThat(PortAssignment.of(List.of(here, here), 1).first()).isEqualTo(1);
    assertThat(PortRequest.of(here.bytes())).isEqualTo(here);
  }

  @Test
  void coresOfOneNodeAreClosestToThePortsOfThatNode() throws IOException {
    Path nodes = system.resolve("devices/system/node");
    write(nodes.resolve("node0/cpulist"), "0-15,32-47\n");
    write(nodes.resolve("node1/cpulist"), "16-31,48-63\n");
    write(nodes.resolve("has_cpu"), "0-1\n");
    assertThat(cores("16-20,48").numaNode()).isEqualTo(1);
    assertThat(cores("32").numaNode()).isZero();
    assertThat(cores("0-63")).isEqualTo(PcieLocation.ANYWHERE);
    assertThat(cores("")).isEqualTo(PcieLocation.ANYWHERE);

    nic("a", "pci0000:15/0000:15:01.0/0000:18:00.0", 0);
    nic("b", "pci0000:97/0000:97:01.0/0000:98:00.0", 1);
    assertThat(PortOrder.of(ports(), cores("16-31")).toString())
        .isEqualTo("b:1 (same NUMA node), then a:1 (farther or unknown)");
  }

  @Test
  void coresOfTheOnlyNodeAreClosestToNothing() throws IOException {
    write(system.resolve("devices/system/node/node0/cpulist"), "0-15\n");
    assertThat(cores("0-15")).isEqualTo(PcieLocation.ANYWHERE);
  }

  private PcieLocation cores(String allowed) throws IOException {
    Path status = system.resolve("status");
    write(status, "Name:\tjava\nCpus_allowed:\tff\nCpus_allowed_list:\t" + allowed + "\n");
    return PcieLocation.ofCores(system, status);
  }

  @Test
  void namedPortsAreTakenIndependentOfDistance() throws IOException {
    device("pci0000:15/0000:15:01.0/0000:18:00.0", 0);
    nic("a", "pci0000:15/0000:15:01.0/0000:19:00.0", 0);
    nic("b", "pci0000:97/0000:97:01.0/0000:98:00.0", 1);
    RdmaSettings settings = RdmaSettings.of(Map.of(RdmaSettings.HCA, "b,a"));
    PcieLocation gpu = PcieLocation.ofDevice(system, "0000:18:00.0");
    assertThat(
            RdmaPorts.choose(ports(), settings, List.of(gpu)).getFirst().ports().stream()
                .map(RdmaPort::name))
        .containsExactly("b:1", "a:1");
  }

  private List<RdmaPort> ports() {
    return RdmaPorts.discover(system.resolve("class/infiniband"));
  }

  private String order(List<RdmaPort> ports, String gpu) {
    return PortOrder.of(ports, PcieLocation.ofDevice(system, gpu)).toString();
  }

  /** The choices of ranks on these devices, in order. */
  private List<String> choices(List<RdmaPort> ports, String... gpus) {
    List<PcieLocation> places =
        Stream.of(gpus).map(gpu -> PcieLocation.ofDevice(system, gpu)).toList();
    return RdmaPorts.choose(ports, NOTHING_SET, places).stream()
        .map(
            choice ->
                String.join(",", choice.ports().stream().map(RdmaPort::name).toList())
                    + " from "
                    + choice.first())
        .toList();
  }

  private void nic(String name, String hardware, int node) throws IOException {
    device(hardware, node);
    port(name, hardware);
  }

  private void port(String name, String hardware) throws IOException {
    port(name, 1, hardware);
  }

  /** Creates a port; {@code hardware} is a path below devices, or empty for none. */
  private void port(String name, int number, String hardware) throws IOException {
    Path device = system.resolve("class/infiniband").resolve(name);
    write(device.resolve("ports/" + number + "/state"), "4: ACTIVE\n");
    write(device.resolve("ports/" + number + "/link_layer"), "InfiniBand\n");
    Path link = device.resolve("device");
    if (!hardware.isEmpty() && !Files.exists(link)) {
      Files.createSymbolicLink(link, system.resolve("devices").resolve(hardware));
    }
  }

  private void device(String hardware, int node) throws IOException {
    Path directory = system.resolve("devices").resolve(hardware);
    write(directory.resolve("numa_node"), node + "\n");
    Path links = system.resolve("bus/pci/devices");
    Files.createDirectories(links);
    Files.createSymbolicLink(links.resolve(directory.getFileName().toString()), directory);
  }

  private static void write(Path file, String text) throws IOException {
    Files.createDirectories(file.getParent());
    Files.writeString(file, text);
  }
}
