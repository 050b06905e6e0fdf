package org.ep4j.cli.report;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.stream.IntStream;
import org.ep4j.bench.Timings;
import org.ep4j.cli.text.Json;

/** Artifacts of runs that never were, for tests of pages. */
final class SampleRuns {
  private SampleRuns() {}

  /**
   * A run on GPUs with several SMs and tokens, the median of each operation near {@code micros}.
   */
  static Map<String, Object> run(double micros, String machine) {
    Map<String, Object> run = new LinkedHashMap<>();
    run.put("ep4j", "0.1.0");
    run.put("git", "abcdef");
    run.put("time", "2026-11-27T20:00:00Z");
    run.put("environment", Map.of("cpu", machine, "memory_bytes", 1L << 34, "flags", List.of()));
    run.put("format", ReportPage.FORMAT);
    run.put("configuration", configuration());
    run.put("verified", true);
    run.put(
        "results",
        List.of(
            result("dispatch", micros, Map.of("sms", 8)),
            result("dispatch", micros / 2, Map.of("sms", 16)),
            result("combine", micros, Map.of("sms", 8)),
            result("combine", micros / 2, Map.of("sms", 16)),
            result("ll_pair", micros / 9, Map.of("tokens", 1, "as", "calls")),
            result("ll_pair", micros / 8, Map.of("tokens", 64, "as", "calls"))));
    return run;
  }

  /** Its options. */
  static Map<String, Object> configuration() {
    return Map.of(
        "kind", "all", "device", "host", "tokens", 4096, "ll_tokens", List.of(1, 64), "ranks", 2);
  }

  private static Map<String, Object> result(
      String operation, double micros, Map<String, Object> more) {
    Random random = new Random(operation.hashCode() + (long) micros);
    double[] samples =
        IntStream.range(0, 120)
            .mapToDouble(_ -> micros + micros * random.nextDouble() / 9)
            .toArray();
    Map<String, Object> result = new LinkedHashMap<>();
    result.put("op", operation);
    result.put("dtype", "bf16");
    result.put("median_us", new Timings(samples).median());
    result.put("p99_us", 1.11 * micros);
    result.put("min_us", micros);
    result.put("max_us", 1.12 * micros);
    result.put("logical_gbps", 210.5);
    result.put("remote_gbps", 105.25);
    result.put("ceiling_us", micros / 2);
    result.put("steady", true);
    result.put("iterations", samples.length);
    result.put("iterations_us", samples);
    result.putAll(more);
    return result;
  }

  /** Writes a run into a file. */
  static Path write(Path file, Map<String, Object> run) throws IOException {
    return Files.writeString(file, Json.text(run));
  }
}
