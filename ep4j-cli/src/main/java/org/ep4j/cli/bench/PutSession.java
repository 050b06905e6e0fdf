package org.ep4j.cli.bench;

import java.time.Duration;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.ep4j.bench.CommandAgreement;
import org.ep4j.bench.VerificationFailure;
import org.ep4j.cli.ExitCodes;
import org.ep4j.cli.text.OutputFile;
import org.ep4j.cli.text.Progress;
import org.ep4j.cli.text.Style;
import org.ep4j.cli.text.Table;
import org.ep4j.cli.text.Units;
import org.ep4j.cuda.backend.PutShape;
import org.ep4j.cuda.put.PutConfig;
import org.ep4j.cuda.put.PutProbe;
import org.ep4j.error.ConfigurationMismatchException;
import org.ep4j.error.EngineUnavailableException;
import org.ep4j.group.Group;
import org.jspecify.annotations.Nullable;

/**
 * A bench of puts from kernels on one rank. Rank 0 prints.
 *
 * @param backends backends, one after the other
 * @param sizes sizes of a put in bytes, one after the other
 * @param warps warps of the stream
 * @param ranksPerNode 0: the ranks of a host are a node
 * @param wire wire between nodes
 * @param artifact JSON file with the results; null for none
 */
record PutSession(
    List<String> backends,
    List<Long> sizes,
    int warps,
    int ranksPerNode,
    String wire,
    @Nullable OutputFile artifact) {
  private static final Duration TIMEOUT = Duration.ofSeconds(30);
  private static final int EXCHANGES = 20;
  private static final int ROUNDS = 500;
  private static final int WARM_UP = 50;
  private static final long STREAM_BYTES = 512L << 20;
  private static final long ROUND_BYTES = 64L << 20;
  private static final long MAX_PUTS = 2000;
  private static final long UNIT = 256;

  /** Runs the bench; returns the exit code, equal on both ranks. */
  int run(Group group, Progress progress) {
    CommandAgreement agreement = new CommandAgreement(group);
    List<Map<String, Object>> results = new ArrayList<>();
    int code = ExitCodes.OK;
    for (String backend : backends) {
      progress.at("puts with backend " + backend);
      try {
        measure(group, agreement, progress, backend, results);
      } catch (EngineUnavailableException | ConfigurationMismatchException e) {
        if (backends.size() == 1) {
          throw e;
        }
        // Both ranks throw the same error: they have agreed on it.
        print(group, progress, Style.detect().bad("not measured: " + e.getMessage()) + "\n\n");
      } catch (VerificationFailure e) {
        print(group, progress, Style.detect().bad("WRONG BYTES: " + e.getMessage()) + "\n\n");
        code = ExitCodes.FAILED;
      }
    }
    if (group.rank() == 0 && artifact != null) {
      Map<String, Object> tree = Artifact.head();
      tree.put("results", results);
      Artifact.write(artifact, tree);
    }
    return code;
  }

  private void print(Group group, Progress progress, String text) {
    if (group.rank() == 0) {
      progress.above(() -> Artifact.tables(artifact).print(text));
    }
  }

  private void measure(
      Group group,
      CommandAgreement agreement,
      Progress progress,
      String backend,
      List<Map<String, Object>> results) {
    long largest = sizes.stream().max(Long::compare).orElseThrow();
    PutConfig config =
        new PutConfig(backend, new PutShape(UNIT, 1, 1), ranksPerNode, wire, TIMEOUT);
    Style style = Style.detect();
    Table table = new Table("size", "put + signal", "GB/s, 1 warp", "GB/s, " + warps + " warps");
    try (PutProbe probe = PutProbe.open(group, config, warps, largest)) {
      for (long size : sizes) {
        verify(agreement, probe, size);
        double ignored = probe.latency(size, WARM_UP);
        double nanos = probe.latency(size, (int) count(ROUND_BYTES, size, ROUNDS));
        double one = stream(probe, 1, size);
        double all = stream(probe, warps, size);
        table.row(
            Units.bytes(size),
            Units.micros(nanos / 1e3),
            Units.significant(one),
            Units.significant(all));
        results.add(tree(backend, probe.text(), size, nanos, one, all));
      }
      print(
          group,
          progress,
          style.bold("Puts from kernels")
              + "  "
              + probe.text()
              + "\n"
              + table.render(style)
              + style.good("verified: every byte of each size")
              + "\n\n");
    }
  }

  private static void verify(CommandAgreement agreement, PutProbe probe, long size) {
    long wrong = probe.exchange(size, EXCHANGES);
    List<String> mismatches =
        agreement.texts(wrong == 0 ? "" : wrong + " vectors of " + size + "-byte puts are wrong");
    if (!mismatches.isEmpty()) {
      throw new VerificationFailure(mismatches.getFirst());
    }
  }

  private static double stream(PutProbe probe, int senders, long size) {
    int count = (int) count(STREAM_BYTES, senders * size, MAX_PUTS);
    double ignored = probe.stream(senders, size, Math.max(1, count / 10));
    return probe.stream(senders, size, count);
  }

  private static long count(long bytes, long each, long max) {
    return Math.clamp(bytes / each, 4, max);
  }

  private Map<String, Object> tree(
      String backend, String text, long size, double nanos, double one, double all) {
    Map<String, Object> tree = new LinkedHashMap<>();
    tree.put("backend", backend);
    tree.put("way", text);
    tree.put("bytes", size);
    tree.put("latency_us", nanos / 1e3);
    tree.put("one_warp_gbps", one);
    tree.put("warps", warps);
    tree.put("gbps", all);
    return tree;
  }
}
