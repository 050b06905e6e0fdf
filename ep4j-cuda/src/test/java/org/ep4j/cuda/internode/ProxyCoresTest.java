package org.ep4j.cuda.internode;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** A host with two NUMA nodes of eight cores, three GPUs and a network card. */
class ProxyCoresTest {
  @TempDir Path root;

  @BeforeEach
  void describeTheHost() throws IOException {
    device("0000:1b:00.0", "0x10de", "0x030200", "0");
    device("0000:2c:00.0", "0x10de", "0x030200", "0");
    device("0000:9a:00.0", "0x10de", "0x030200", "1");
    device("0000:9b:00.0", "0x15b3", "0x020700", "1");
    write("sys/devices/system/node/node0/cpulist", "0-3,8-11");
    write("sys/devices/system/node/node1/cpulist", "4-7,12-15");
    allow("0-15");
  }

  private void write(String file, String text) throws IOException {
    Path path = root.resolve(file);
    Files.createDirectories(path.getParent());
    Files.writeString(path, text + "\n");
  }

  private void device(String bus, String vendor, String kind, String node) throws IOException {
    String folder = "sys/bus/pci/devices/" + bus + "/";
    write(folder + "vendor", vendor);
    write(folder + "class", kind);
    write(folder + "numa_node", node);
  }

  private void allow(String list) throws IOException {
    write("status", "Name:\tjava\nCpus_allowed_list:\t" + list);
  }

  private List<Integer> nearest(String bus, int threads) {
    return new ProxyCores(root.resolve("sys"), root.resolve("status")).nearest(bus, threads);
  }

  @Test
  void gpusOfANodeUseSeparateCoresFromItsEnd() {
    assertThat(nearest("0000:1B:00.0", 2)).containsExactly(10, 11);
    assertThat(nearest("0000:2c:00.0", 2)).containsExactly(8, 9);
    assertThat(nearest("0000:9a:00.0", 1)).containsExactly(15);
  }

  @Test
  void withFewCoresTheSystemChooses() throws IOException {
    assertThat(nearest("0000:1b:00.0", 3)).isEmpty();
    allow("0-2");
    assertThat(nearest("0000:1b:00.0", 1)).isEmpty();
    assertThat(nearest("0000:9a:00.0", 1)).isEmpty();
  }

  @Test
  void onlyCoresOfThisProcessAreChosen() throws IOException {
    allow("0-9,12");
    assertThat(nearest("0000:1b:00.0", 1)).containsExactly(9);
    assertThat(nearest("0000:9a:00.0", 1)).containsExactly(12);
  }

  @Test
  void anUnknownGpuHasNoCores() {
    assertThat(nearest("0000:ff:00.0", 1)).isEmpty();
  }
}
