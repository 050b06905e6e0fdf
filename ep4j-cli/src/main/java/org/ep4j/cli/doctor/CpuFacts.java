package org.ep4j.cli.doctor;

import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashSet;
import java.util.List;
import java.util.Optional;
import java.util.Set;

/** The processor, and the share that this process may use. */
final class CpuFacts {
  private static final String TOPIC = "CPU";
  private static final Path CPUINFO = Path.of("/proc/cpuinfo");
  private static final List<String> WORTH_KNOWING =
      List.of(
          "avx2",
          "avx512f",
          "avx512bw",
          "avx512_vbmi",
          "avx512vbmi",
          "avx512_bf16",
          "avx512_fp16",
          "amx_bf16",
          "asimd",
          "sve",
          "sve2",
          "bf16",
          "fphp");

  private CpuFacts() {}

  /** Name of the processor. */
  static String model() {
    return SystemFiles.value(CPUINFO, "model name")
        .or(() -> SystemFiles.value(CPUINFO, "CPU part").map(part -> "ARM part " + part))
        .orElse(System.getProperty("os.arch"));
  }

  static List<Finding> look() {
    List<Finding> findings = new ArrayList<>();
    int cores = Runtime.getRuntime().availableProcessors();
    findings.add(Finding.found(TOPIC, "model", model(), cores + " usable cores"));
    findings.add(features());
    findings.add(nodes());
    cgroupLimit().ifPresent(findings::add);
    return findings;
  }

  private static Finding features() {
    Set<String> flags =
        new HashSet<>(
            Arrays.asList(
                SystemFiles.value(CPUINFO, "flags")
                    .or(() -> SystemFiles.value(CPUINFO, "Features"))
                    .orElse("")
                    .split(" ", -1)));
    List<String> here = WORTH_KNOWING.stream().filter(flags::contains).toList();
    String value = here.isEmpty() ? "none of " + WORTH_KNOWING : String.join(" ", here);
    if (here.contains("avx512bw")) {
      return Finding.found(TOPIC, "vector features", value, "full speed of the host engine");
    }
    return Finding.found(
        TOPIC, "vector features", value, "works; AVX-512 makes sums and FP8 faster");
  }

  private static Finding nodes() {
    int nodes = SystemFiles.entries(Path.of("/sys/devices/system/node"), "node[0-9]*").size();
    return nodes > 1
        ? Finding.found(
            TOPIC,
            "memory nodes",
            nodes + " NUMA nodes",
            "bind each rank to one: numactl, --bind-to")
        : Finding.found(TOPIC, "memory nodes", "1", "");
  }

  private static Optional<Finding> cgroupLimit() {
    return Cgroup.line("cpu.max")
        .filter(limit -> !limit.startsWith("max"))
        .map(
            limit -> {
              String[] parts = limit.split(" ", -1);
              double share = Double.parseDouble(parts[0]) / Double.parseDouble(parts[1]);
              return Finding.warning(
                  TOPIC,
                  "cgroup limit",
                  org.ep4j.cli.text.Units.fixed(share, 2) + " cores (cpu.max " + limit + ")",
                  "more ranks than cores wait for each other: start fewer ranks, or raise the"
                      + " limit");
            });
  }
}
