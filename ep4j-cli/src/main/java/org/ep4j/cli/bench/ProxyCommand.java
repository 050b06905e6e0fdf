package org.ep4j.cli.bench;

import java.io.PrintWriter;
import java.time.Duration;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Callable;
import org.ep4j.bench.Timings;
import org.ep4j.bench.proxy.ProxyBench;
import org.ep4j.bench.proxy.RoundTimes;
import org.ep4j.cli.CommandSpecs;
import org.ep4j.cli.ExitCodes;
import org.ep4j.cli.text.OutputFile;
import org.ep4j.cli.text.Style;
import org.ep4j.cli.text.Table;
import org.ep4j.cli.text.Units;
import org.ep4j.cuda.driver.DeviceProperties;
import org.ep4j.cuda.driver.calls.CudaDriver;
import org.ep4j.cuda.internode.proxy.ProxyConfig;
import org.ep4j.error.ErrorCode;
import org.jspecify.annotations.Nullable;
import picocli.CommandLine.Command;
import picocli.CommandLine.Mixin;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.Spec;

/** Measures the path of a command from a kernel to the post on a wire. */
@Command(
    name = "proxy",
    sortOptions = false,
    description = {
      "Measure the proxy: kernels push commands, and host threads post them to a wire that"
          + " discards them.",
      "",
      "The rate counts from the launch until every command is posted; their sum is checked. The"
          + " time from the store to the post is that of a single command, by the clocks of GPU and"
          + " host. It is an upper bound; the error is at most the time in which the GPU reads the"
          + " host clock (look).",
      ""
    })
final class ProxyCommand implements Callable<Integer> {
  @Option(
      names = "--threads",
      split = ",",
      defaultValue = "1,2,4,8",
      paramLabel = "N",
      description = "Numbers of threads that post, one after the other; default ${DEFAULT-VALUE}.")
  private List<Integer> threads = List.of();

  @Option(
      names = "--rings",
      defaultValue = "2",
      paramLabel = "N",
      description = "Rings of each thread; default ${DEFAULT-VALUE}.")
  private int rings;

  @Option(
      names = "--capacity",
      defaultValue = "2048",
      paramLabel = "N",
      description = "Capacity of a ring in commands; default ${DEFAULT-VALUE}.")
  private int capacity;

  @Option(
      names = "--batch",
      split = ",",
      defaultValue = "32,1",
      paramLabel = "N",
      description = "Numbers of commands that a warp pushes at once; default ${DEFAULT-VALUE}.")
  private List<Integer> together = List.of();

  @Option(
      names = "--warps",
      defaultValue = "256",
      paramLabel = "N",
      description = "Warps that push, 8 per block; default ${DEFAULT-VALUE}.")
  private int warps;

  @Option(
      names = "--commands",
      defaultValue = "16777216",
      paramLabel = "N",
      description = "Commands of all warps together; default ${DEFAULT-VALUE}.")
  private long commands;

  @Option(
      names = "--rounds",
      defaultValue = "10000",
      paramLabel = "N",
      description = "Commands that are timed individually; default ${DEFAULT-VALUE}.")
  private int rounds;

  @Option(
      names = "--cores",
      split = ",",
      paramLabel = "N",
      description = "Cores of the threads, at least one per thread; default: chosen by the system.")
  private List<Integer> cores = List.of();

  @Mixin private JsonOption json = new JsonOption();

  @Spec private @Nullable CommandSpec spec;

  @Override
  public Integer call() {
    OutputFile artifact = json.file(spec);
    CommandSpecs.checkValue(
        spec, warps >= 8 && warps % 8 == 0, "--warps", warps, "a multiple of 8");
    CommandSpecs.checkValue(
        spec, commands >= 32L * warps, "--commands", commands, "at least 32 per warp");
    CommandSpecs.checkValue(spec, rounds >= 100, "--rounds", rounds, "at least 100");
    for (int number : together) {
      CommandSpecs.checkValue(spec, number >= 1 && number <= 32, "--batch", number, "1..32");
    }
    for (int number : threads) {
      CommandSpecs.checkValue(
          spec,
          number >= 1 && number <= ProxyConfig.MAX_THREADS,
          "--threads",
          number,
          "1.." + ProxyConfig.MAX_THREADS);
      CommandSpecs.check(
          spec,
          cores.isEmpty() || cores.size() >= number,
          ErrorCode.CONFLICTING_OPTIONS,
          "--cores names " + cores.size() + " cores for " + number + " threads: name more cores");
    }
    CudaDriver.require();
    long each = commands / warps;
    PrintWriter out = Artifact.tables(artifact, CommandSpecs.require(spec));
    Style style = Style.detect();
    out.printf(
        "%s  %s, %d warps, %d commands, %d rings of %d per thread%n%n",
        style.bold("Commands from kernels to the host"),
        DeviceProperties.of(0).name(),
        warps,
        each * warps,
        rings,
        capacity);
    out.flush();
    Table table =
        new Table(
            "threads",
            "together",
            "M commands/s",
            "store to post",
            "p99",
            "push to post",
            "round trip",
            "look");
    List<Map<String, Object>> results = new ArrayList<>();
    try (ProxyBench bench = ProxyBench.open(rings, capacity, cores)) {
      for (int number : threads) {
        RoundTimes times = bench.rounds(number, rounds, Duration.ofNanos(5000));
        for (int lanes : together) {
          double rate = bench.rate(number, warps, each, lanes);
          table.row(
              String.valueOf(number),
              String.valueOf(lanes),
              Units.significant(rate / 1e6),
              Units.micros(times.fromStore().median()),
              Units.micros(times.fromStore().p99()),
              Units.micros(times.fromPush().median()),
              Units.micros(times.roundTrip().median()),
              Units.micros(times.look().median()));
          results.add(tree(number, lanes, rate, times));
        }
      }
    }
    out.print(table.render(style));
    out.println(style.good("verified: number and sum of the posted commands"));
    out.flush();
    if (artifact != null) {
      Map<String, Object> tree = Artifact.head();
      tree.put("warps", warps);
      tree.put("commands", each * warps);
      tree.put("rings_of_thread", rings);
      tree.put("capacity", capacity);
      tree.put("rounds", rounds);
      tree.put("cores", cores);
      tree.put("results", results);
      Artifact.write(artifact, tree);
    }
    return ExitCodes.OK;
  }

  private static Map<String, Object> tree(
      int threads, int together, double rate, RoundTimes times) {
    Map<String, Object> tree = new LinkedHashMap<>();
    tree.put("threads", threads);
    tree.put("together", together);
    tree.put("commands_per_second", rate);
    put(tree, "store_to_post", times.fromStore());
    put(tree, "push_to_post", times.fromPush());
    put(tree, "round_trip", times.roundTrip());
    put(tree, "look_at_clock", times.look());
    return tree;
  }

  private static void put(Map<String, Object> tree, String name, Timings timings) {
    tree.put(name + "_median_us", timings.median());
    tree.put(name + "_p99_us", timings.p99());
    tree.put(name + "_least_us", timings.min());
  }
}
