package org.ep4j.cli.bench;

import java.util.concurrent.Callable;
import org.ep4j.cli.CommandSpecs;
import org.ep4j.cli.HelpGroup;
import org.ep4j.cli.launch.WorldOptions;
import org.ep4j.cli.text.OutputFile;
import org.ep4j.config.BufferConfig;
import org.ep4j.config.EngineName;
import org.ep4j.cuda.driver.CudaDevice;
import org.ep4j.moe.MoeShape;
import org.ep4j.moe.RouterConfig;
import org.jspecify.annotations.Nullable;
import picocli.CommandLine.Command;
import picocli.CommandLine.Mixin;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.Spec;

/** Measures a Mixture-of-Experts layer. */
@Command(
    name = "moe",
    sortOptions = false,
    description = {
      "Measure a Mixture-of-Experts layer: router, dispatch, experts, combine; on the host in FP32,"
          + " with --device cuda on GPUs in BF16.",
      "",
      "Random weights and tokens, softmax over all experts. Before the timing, tokens of each rank"
          + " are compared with plain arithmetic of double precision. A time is the median on the"
          + " slowest rank, on GPUs of events of CUDA; dispatch and combine include waits for other"
          + " ranks.",
      ""
    })
final class MoeCommand implements Callable<Integer> {
  @HelpGroup(HelpGroup.RANKS)
  @Option(
      names = "--ranks",
      paramLabel = "N",
      description = "Number of ranks; default: the number of cores, 2 to 4, or the number of GPUs.")
  private @Nullable Integer ranks;

  @HelpGroup(HelpGroup.RANKS)
  @Option(
      names = "--device",
      defaultValue = EngineName.HOST,
      paramLabel = "host|cuda",
      description = "The engine; default ${DEFAULT-VALUE}.")
  private String device = EngineName.HOST;

  @Mixin private WorldOptions world = new WorldOptions();

  @HelpGroup(HelpGroup.LOAD)
  @Option(
      names = "--tokens",
      defaultValue = "256",
      paramLabel = "N",
      description = "Tokens of each rank; default ${DEFAULT-VALUE}.")
  private int tokens;

  @HelpGroup(HelpGroup.LOAD)
  @Option(
      names = "--hidden",
      defaultValue = "1024",
      paramLabel = "N",
      description = "Elements of a token; default ${DEFAULT-VALUE}.")
  private int hidden;

  @HelpGroup(HelpGroup.LOAD)
  @Option(
      names = "--intermediate",
      defaultValue = "512",
      paramLabel = "N",
      description = "Elements between the matrices of an expert; default ${DEFAULT-VALUE}.")
  private int intermediate;

  @HelpGroup(HelpGroup.LOAD)
  @Option(
      names = "--experts",
      defaultValue = "32",
      paramLabel = "N",
      description = "Experts of all ranks; default ${DEFAULT-VALUE}.")
  private int experts;

  @HelpGroup(HelpGroup.LOAD)
  @Option(
      names = "--topk",
      defaultValue = "4",
      paramLabel = "N",
      description = "Experts of each token; default ${DEFAULT-VALUE}.")
  private int topk;

  @HelpGroup(HelpGroup.LOAD)
  @Option(
      names = "--shared",
      defaultValue = "0",
      paramLabel = "N",
      description = {
        "Elements between the matrices of a shared expert, which all tokens pass beside those of"
            + " their choice; measured also without it. Default: none."
      })
  private int shared;

  @HelpGroup(HelpGroup.LOAD)
  @Option(
      names = "--decode",
      description = {
        "Measure decoding by low latency, then the call as the host sees it, and the replay of the"
            + " same step, which is a CUDA graph on GPUs."
      })
  private boolean decode;

  @HelpGroup(HelpGroup.LOAD)
  @Option(
      names = "--fp8",
      description = {
        "Tokens in FP8 with a scale for 128 elements, weights in FP8 with a factor for 128 x 128;"
            + " --hidden is a multiple of 128."
      })
  private boolean fp8;

  @HelpGroup(HelpGroup.TIMING)
  @Option(
      names = "--iterations",
      paramLabel = "N",
      description = "Timed iterations; default: as many as take about two seconds, at least 5.")
  private @Nullable Integer iterations;

  @HelpGroup(HelpGroup.TIMING)
  @Option(
      names = "--warmup",
      paramLabel = "N",
      description = "Untimed iterations; default: until the layer stops becoming faster.")
  private @Nullable Integer warmup;

  @Mixin private JsonOption json = new JsonOption();

  @Spec private @Nullable CommandSpec spec;

  @Override
  public Integer call() throws Exception {
    CommandSpec command = CommandSpecs.require(spec);
    CommandSpecs.checkValue(spec, tokens > 0, "--tokens", tokens, "at least 1");
    CommandSpecs.checkValue(spec, shared >= 0, "--shared", shared, "at least 0");
    CommandSpecs.checkValue(spec, experts >= 1, "--experts", experts, "at least 1");
    int maxTopk = Math.min(experts, BufferConfig.MAX_TOP_K);
    CommandSpecs.checkValue(spec, topk >= 1 && topk <= maxTopk, "--topk", topk, "1.." + maxTopk);
    // More input sets would measure the same: experts read their weights from memory.
    IterationPlan plan = IterationPlan.of(spec, iterations, warmup, 1);
    CommandSpecs.checkValue(
        spec,
        device.equals(EngineName.HOST) || device.equals(EngineName.CUDA),
        "--device",
        device,
        "host or cuda");
    int count = ranks == null ? ranks() : ranks;
    CommandSpecs.checkValue(
        spec, count > 0 && count <= experts, "--ranks", count, "1 to the number of experts");
    MoeShape shape =
        new MoeShape(hidden, intermediate, shared, RouterConfig.softmax(experts, topk));
    OutputFile artifact = json.file(spec);
    MoeSession session = new MoeSession(device, shape, tokens, decode, fp8, plan, artifact);
    return world.run(command, count, session::run);
  }

  private int ranks() {
    return device.equals(EngineName.HOST)
        ? BenchCommand.hostRanks()
        : Math.max(1, CudaDevice.count());
  }
}
