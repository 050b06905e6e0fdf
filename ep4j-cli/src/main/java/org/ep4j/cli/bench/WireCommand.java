package org.ep4j.cli.bench;

import java.time.Duration;
import java.util.List;
import java.util.concurrent.Callable;
import org.ep4j.cli.CommandSpecs;
import org.ep4j.cli.launch.WireNames;
import org.ep4j.cli.launch.WorldOptions;
import org.ep4j.cli.text.OutputFile;
import org.ep4j.cli.text.Units;
import org.ep4j.config.WireName;
import org.jspecify.annotations.Nullable;
import picocli.CommandLine.Command;
import picocli.CommandLine.Mixin;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.Spec;

/** Measures the wires between two ranks. */
@Command(
    name = "wire",
    sortOptions = false,
    description = {
      "Measure the wires between two ranks: latency, message rate and bandwidth for each size.",
      "",
      "Latency is half a round trip: a counted put in each direction. The stream is many puts from"
          + " rank 0 over all lanes, timed until rank 0 knows that rank 1 has counted the last. The"
          + " same run also starts the tool of the fabric, if it is installed: iperf3 for tcp, over"
          + " as many connections; ucx_perftest for ucx; ib_write_lat and ib_write_bw for verbs,"
          + " over as many ports and queue pairs.",
      ""
    })
final class WireCommand implements Callable<Integer> {
  private static final long MAX_BYTES = 1L << 30;

  /** Blocks of the largest size: each rank sends from one and receives into another. */
  private static final int BLOCKS = 2 * RankPair.RANKS;

  @Mixin private WorldOptions world = new WorldOptions();

  @Option(
      names = "--wire",
      split = ",",
      paramLabel = "NAME",
      description =
          "Wires, one after the other; default shm,tcp (processes) or inproc,tcp (threads)."
              + " Between hosts: tcp, ucx, verbs.")
  private @Nullable List<String> wires;

  @Option(
      names = "--lanes",
      split = ",",
      defaultValue = "1,4",
      paramLabel = "N",
      description = "Numbers of lanes, one after the other; default ${DEFAULT-VALUE}.")
  private List<Integer> lanes = List.of();

  @Option(
      names = "--connections",
      paramLabel = "N",
      defaultValue = "0",
      description = "Connections between the ranks (tcp, ucx); default: one per lane.")
  private int connections;

  @Option(names = "--encrypted", description = "With TLS 1.3 (tcp).")
  private boolean encrypted;

  @Option(
      names = "--sizes",
      split = ",",
      defaultValue = "8,64,512,4096,32768,262144,1048576,4194304,16777216",
      paramLabel = "BYTES",
      description =
          "Sizes of puts, at most 1 GiB; default: nine from 8 B to 16 MiB. The ranks need four times"
              + " the largest as memory.")
  private List<Long> sizes = List.of();

  @Option(
      names = "--millis",
      defaultValue = "400",
      paramLabel = "N",
      description =
          "Milliseconds of each stream, and maximum of its round trips; default ${DEFAULT-VALUE}.")
  private int millis;

  @Mixin private JsonOption json = new JsonOption();

  @Spec private @Nullable CommandSpec spec;

  @Override
  public Integer call() throws Exception {
    for (long size : sizes) {
      CommandSpecs.checkValue(
          spec, size > 0 && size <= MAX_BYTES, "--sizes", size, "1.." + MAX_BYTES + " (1 GiB)");
    }
    for (int count : lanes) {
      CommandSpecs.checkValue(spec, count > 0, "--lanes", count, "at least 1");
    }
    CommandSpecs.checkValue(spec, millis > 0, "--millis", millis, "at least 1");
    CommandSpec command = CommandSpecs.require(spec);
    OutputFile artifact = json.file(spec);
    chosen().forEach(name -> WireNames.check(command, name, world.join()));
    if (!world.join()) {
      requireMemory();
    }
    WireSession session =
        new WireSession(
            chosen(), lanes, connections, encrypted, sizes, Duration.ofMillis(millis), artifact);
    return RankPair.run(world, command, session::run);
  }

  /** Refuses sizes for which the kernel would kill a rank for lack of memory. */
  private void requireMemory() {
    long largest = sizes.stream().max(Long::compare).orElse(0L);
    BenchLimits.requireMemory(
        BLOCKS * largest, "2 ranks with puts of " + Units.bytes(largest), "smaller --sizes");
  }

  private List<String> chosen() {
    if (wires != null) {
      return wires;
    }
    String affinity = world.threads() ? WireName.INPROC : WireName.SHM;
    return List.of(affinity, WireName.TCP);
  }
}
