package org.ep4j.cli.bench;

import java.io.PrintWriter;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Callable;
import org.ep4j.cli.CommandSpecs;
import org.ep4j.cli.ExitCodes;
import org.ep4j.cli.text.OutputFile;
import org.ep4j.cli.text.Style;
import org.ep4j.cli.text.Table;
import org.ep4j.cli.text.Units;
import org.ep4j.cuda.driver.CudaDevice;
import org.ep4j.cuda.driver.DeviceProperties;
import org.ep4j.cuda.driver.calls.CudaDriver;
import org.ep4j.cuda.probe.LinkProbe;
import org.ep4j.cuda.probe.ProbeLoad;
import org.ep4j.cuda.probe.ProbeSpeed;
import org.jspecify.annotations.Nullable;
import picocli.CommandLine.Command;
import picocli.CommandLine.Mixin;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.Spec;

/** Measures the rate of the links between the GPUs of this machine. */
@Command(
    name = "nvlink",
    sortOptions = false,
    description = {
      "Measure the ceiling: all GPUs push rows to one another, without a protocol.",
      "",
      "Every GPU sends the same number of rows to each other GPU at the same time, through the"
          + " tensor memory accelerator. The second measurement of a row also copies its own rows,"
          + " as a dispatch does. A time is that of the slowest GPU after a common start; every"
          + " byte is checked. GB/s count received bytes. With a single GPU, this is the speed of"
          + " its memory.",
      ""
    })
final class NvlinkCommand implements Callable<Integer> {
  @Option(names = "--gpus", paramLabel = "N", description = "Number of GPUs; default: all.")
  private @Nullable Integer gpus;

  @Option(
      names = "--sms",
      split = ",",
      defaultValue = "8,16,24,32,64",
      paramLabel = "N",
      description = "Blocks on each GPU; default ${DEFAULT-VALUE}.")
  private List<Integer> sms = List.of();

  @Option(
      names = "--row-bytes",
      split = ",",
      defaultValue = "14336,7424",
      paramLabel = "N",
      description =
          "Lengths of rows; default ${DEFAULT-VALUE}: 7168 values in BF16, and in FP8 with scales.")
  private List<Integer> rowBytes = List.of();

  @Option(
      names = "--rows",
      defaultValue = "3698",
      paramLabel = "N",
      description =
          "Rows to each GPU; default ${DEFAULT-VALUE}: 4096 tokens, top-8 of 256 experts, 4 ranks.")
  private int rows;

  @Option(
      names = "--iterations",
      defaultValue = "30",
      paramLabel = "N",
      description = "Timed repetitions; default ${DEFAULT-VALUE}.")
  private int iterations;

  @Mixin private JsonOption json = new JsonOption();

  @Spec private @Nullable CommandSpec spec;

  @Override
  public Integer call() {
    OutputFile artifact = json.file(spec);
    CudaDriver.require();
    int devices = gpus == null ? CudaDevice.count() : gpus;
    PrintWriter out = Artifact.tables(artifact, CommandSpecs.require(spec));
    Style style = Style.detect();
    List<ProbeSpeed> speeds = new ArrayList<>();
    try (LinkProbe probe = LinkProbe.open(devices)) {
      out.printf(
          "%s  %d x %s, %d rows to each, %d repetitions%n%n",
          style.bold(devices == 1 ? "Memory of a single GPU" : "Links between GPUs"),
          devices,
          DeviceProperties.of(0).name(),
          rows,
          iterations);
      out.flush();
      Table table =
          new Table("row bytes", "SMs", "remote only", "remote GB/s", "with own", "logical GB/s");
      for (int length : rowBytes) {
        for (int blocks : sms) {
          measure(probe, length, blocks, table, speeds);
        }
      }
      out.print(table.render(style));
      out.println(style.good("verified: every byte, each time"));
      out.flush();
    }
    if (artifact != null) {
      Artifact.write(artifact, tree(speeds));
    }
    return ExitCodes.OK;
  }

  private void measure(
      LinkProbe probe, int length, int blocks, Table table, List<ProbeSpeed> speeds) {
    ProbeSpeed all = probe.measure(new ProbeLoad(length, rows, true), blocks, iterations);
    speeds.add(all);
    String time = "";
    String remote = "";
    if (probe.devices() > 1) {
      ProbeSpeed others = probe.measure(new ProbeLoad(length, rows, false), blocks, iterations);
      speeds.add(others);
      time = Units.micros(others.median());
      remote = Units.significant(others.remoteGbps());
    }
    table.row(
        String.valueOf(length),
        String.valueOf(blocks),
        time,
        remote,
        Units.micros(all.median()),
        Units.significant(all.logicalGbps()));
  }

  private static Map<String, Object> tree(List<ProbeSpeed> speeds) {
    Map<String, Object> tree = Artifact.head();
    tree.put("results", speeds.stream().map(NvlinkCommand::tree).toList());
    return tree;
  }

  private static Map<String, Object> tree(ProbeSpeed speed) {
    Map<String, Object> tree = new LinkedHashMap<>();
    tree.put("gpus", speed.devices());
    tree.put("row_bytes", speed.load().rowBytes());
    tree.put("rows_to_each", speed.load().rows());
    tree.put("own_rows", speed.load().local());
    tree.put("sms", speed.sms());
    tree.put("median_us", speed.median());
    tree.put("remote_gbps", speed.remoteGbps());
    tree.put("logical_gbps", speed.logicalGbps());
    tree.put("iterations_us", speed.micros());
    return tree;
  }
}
