package org.ep4j.rdma.verbs.ports;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import org.ep4j.error.ErrorCode;
import org.ep4j.wire.WireException;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class RdmaPortsTest {
  private static final RdmaSettings NOTHING_SET = RdmaSettings.DEFAULTS;

  @TempDir private Path system;

  @Test
  void aPortIsDescribedAsInTheSystemFiles() throws IOException {
    Path hardware = system.resolve("devices/pci0000:00/0000:00:01.0/0000:3b:00.0");
    write(hardware.resolve("numa_node"), "1\n");
    Path port = system.resolve("infiniband/mlx5_0/ports/1");
    write(port.resolve("state"), "4: ACTIVE\n");
    write(port.resolve("link_layer"), "Ethernet\n");
    write(port.resolve("rate"), "400 Gb/sec (4X NDR)\n");
    gid(port, 0, "fe80:0000:0000:0000:0a00:27ff:fe00:0001", "IB/RoCE v1");
    gid(port, 1, "fe80:0000:0000:0000:0a00:27ff:fe00:0001", "RoCE v2");
    gid(port, 2, "0000:0000:0000:0000:0000:ffff:0a00:0001", "IB/RoCE v1");
    gid(port, 3, "0000:0000:0000:0000:0000:ffff:0a00:0001", "RoCE v2");
    gid(port, 4, "0000:0000:0000:0000:0000:0000:0000:0000", "");
    Files.createSymbolicLink(system.resolve("infiniband/mlx5_0/device"), hardware);

    List<RdmaPort> ports = RdmaPorts.discover(system.resolve("infiniband"));

    assertThat(ports).hasSize(1);
    RdmaPort found = ports.getFirst();
    assertThat(found.name()).isEqualTo("mlx5_0:1");
    assertThat(found.active()).isTrue();
    assertThat(found.ethernet()).isTrue();
    assertThat(found.numaNode()).isEqualTo(1);
    assertThat(found.pciPath()).endsWith("0000:00:01.0/0000:3b:00.0");
    assertThat(found.addresses()).hasSize(4);
    assertThat(found.usualAddress()).isEqualTo(3);
  }

  private static void gid(Path port, int index, String gid, String type) throws IOException {
    write(port.resolve("gids/" + index), gid + "\n");
    write(port.resolve("gid_attrs/types/" + index), type + "\n");
  }

  private static void write(Path file, String text) throws IOException {
    Files.createDirectories(file.getParent());
    Files.writeString(file, text);
  }

  @Test
  void devicesLieWhereLibibverbsReadsThem() {
    Path usual = Path.of("/sys/class/infiniband");
    assertThat(RdmaPorts.devices(Map.of())).isEqualTo(usual);
    assertThat(RdmaPorts.devices(Map.of("SYSFS_PATH", ""))).isEqualTo(usual);
    assertThat(RdmaPorts.devices(Map.of("SYSFS_PATH", "/other/sys/")))
        .isEqualTo(Path.of("/other/sys/class/infiniband"));
  }

  @Test
  void aHostWithoutDevicesHasNoPorts() {
    assertThat(RdmaPorts.discover(system.resolve("nothing"))).isEmpty();
    assertThatThrownBy(() -> choose(List.of(), NOTHING_SET, 0))
        .isInstanceOf(WireException.class)
        .hasMessageStartingWith(ErrorCode.RDMA_NO_PORT.id());
  }

  @Test
  void ranksOfAHostTakeDifferentPorts() {
    List<RdmaPort> two = List.of(port("a", "ACTIVE"), port("b", "ACTIVE"), port("c", "DOWN"));
    assertThat(names(two, 0)).containsExactly("a:1", "b:1");
    assertThat(names(two, 1)).containsExactly("a:1", "b:1");
    List<RdmaPort> four =
        List.of(port("a", "ACTIVE"), port("b", "ACTIVE"), port("c", "ACTIVE"), port("d", "ACTIVE"));
    assertThat(names(four, 1)).containsExactly("c:1", "d:1");
    assertThat(names(four, 2)).containsExactly("a:1", "b:1");
    assertThat(names(List.of(port("a", "ACTIVE")), 1)).containsExactly("a:1");
  }

  private static List<String> names(List<RdmaPort> ports, int localRank) {
    return choose(ports, NOTHING_SET, localRank).stream().map(RdmaPort::name).toList();
  }

  /** The ports of one of several ranks without affinity. */
  private static List<RdmaPort> choose(List<RdmaPort> ports, RdmaSettings settings, int localRank) {
    List<PcieLocation> places = Collections.nCopies(localRank + 1, PcieLocation.ANYWHERE);
    return RdmaPorts.choose(ports, settings, places).get(localRank).ports();
  }

  @Test
  void namedPortsMustExistAndBeActive() {
    List<RdmaPort> ports = List.of(port("a", "ACTIVE"), port("b", "DOWN"));
    assertThat(choose(ports, named("a"), 3)).containsExactly(ports.getFirst());
    assertThatThrownBy(() -> choose(ports, named("x"), 0))
        .hasMessageStartingWith(ErrorCode.RDMA_PORT_MISSING.id())
        .hasMessageContaining("x:1")
        .hasMessageContaining("a:1 (ACTIVE)");
    assertThatThrownBy(() -> choose(ports, named("a,b"), 0))
        .hasMessageStartingWith(ErrorCode.RDMA_PORT_DOWN.id())
        .hasMessageContaining("b:1")
        .hasMessageContaining("DOWN");
  }

  private static RdmaSettings named(String ports) {
    return RdmaSettings.of(Map.of(RdmaSettings.HCA, ports));
  }

  private static RdmaPort port(String device, String state) {
    return new RdmaPort(device, 1, state, "Ethernet", "", -1, "", List.of());
  }
}
