package org.ep4j.cli.bench;

import java.util.List;
import java.util.concurrent.Callable;
import org.ep4j.cli.CommandSpecs;
import org.ep4j.cli.launch.NodeOptions;
import org.ep4j.cli.launch.WorldOptions;
import org.ep4j.cli.text.OutputFile;
import org.ep4j.config.BackendName;
import org.ep4j.cuda.driver.calls.CudaDriver;
import org.jspecify.annotations.Nullable;
import picocli.CommandLine.Command;
import picocli.CommandLine.Mixin;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.Spec;

/** Measures puts from kernels. */
@Command(
    name = "put",
    sortOptions = false,
    description = {
      "Measure puts from kernels between two GPUs, with each backend: latency and bandwidth.",
      "",
      "Before the timing, all warps exchange blocks that differ in each round, overwrite their"
          + " source after each flush, and compare every byte. Latency is half a round trip of one"
          + " warp: a put and a signal in each direction. The stream is blocks from rank 0, each"
          + " followed by a signal, until rank 1 has confirmed all blocks. With --nodes 2 the GPUs"
          + " belong to different nodes, whatever links connect them.",
      ""
    })
final class PutCommand implements Callable<Integer> {
  private static final int WARPS_OF_BLOCK = 8;
  private static final int MAX_WARPS = 512;
  private static final int UNIT = 16;
  private static final long MAX_BYTES = 64L << 20;

  @Mixin private WorldOptions world = new WorldOptions();
  @Mixin private NodeOptions nodes = new NodeOptions();

  @Option(
      names = "--backend",
      split = ",",
      defaultValue = BackendName.AUTO,
      paramLabel = "NAME",
      description =
          "direct, nccl, nvshmem or auto; several are measured one by one; default"
              + " ${DEFAULT-VALUE}.")
  private List<String> backends = List.of();

  @Option(
      names = "--sizes",
      split = ",",
      defaultValue = "16,1024,14336,131072,1048576",
      paramLabel = "BYTES",
      description = "Sizes of puts, multiples of 16, at most 64 MiB; default ${DEFAULT-VALUE}.")
  private List<Long> sizes = List.of();

  @Option(
      names = "--warps",
      defaultValue = "64",
      paramLabel = "N",
      description =
          "Warps of the stream, each with a lane; a multiple of 8, at most 512; default"
              + " ${DEFAULT-VALUE}.")
  private int warps;

  @Mixin private JsonOption json = new JsonOption();

  @Spec private @Nullable CommandSpec spec;

  @Override
  public Integer call() throws Exception {
    for (long size : sizes) {
      CommandSpecs.checkValue(
          spec,
          size > 0 && size % UNIT == 0 && size <= MAX_BYTES,
          "--sizes",
          size,
          "multiples of 16, at most 64 MiB");
    }
    CommandSpecs.checkValue(
        spec,
        warps > 0 && warps % WARPS_OF_BLOCK == 0 && warps <= MAX_WARPS,
        "--warps",
        warps,
        "a multiple of 8, at most " + MAX_WARPS);
    CommandSpec command = CommandSpecs.require(spec);
    nodes.check(command, RankPair.RANKS, world.join());
    nodes.checkWire(command, true, world.join());
    OutputFile artifact = json.file(spec);
    CudaDriver.require();
    PutSession session =
        new PutSession(
            backends, sizes, warps, nodes.ranksPerNode(RankPair.RANKS), nodes.wire(), artifact);
    return RankPair.run(world, command, session::run);
  }
}
