package org.ep4j.cli.bench;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.ep4j.bench.VerificationFailure;
import org.ep4j.cli.ExitCodes;
import org.ep4j.config.EngineName;
import org.ep4j.wire.WireConfig;

/** A bench on one rank. Rank 0 prints. */
final class BenchSession {
  private final RankContext context;
  private final ResultFiles files;
  private final BenchTests tests;

  private String engine = "";
  private String wire = "";

  /** The context, with the nodes of its buffers where these are several. */
  private RankContext across;

  /**
   * A bench.
   *
   * @param files files for the results
   * @param tests tests in place of a measurement
   */
  BenchSession(RankContext context, ResultFiles files, BenchTests tests) {
    this.context = context;
    this.files = files;
    this.tests = tests;
    across = context;
  }

  /**
   * Runs all parts.
   *
   * @param threads whether the ranks are threads of this JVM
   * @return the exit code, the same on all ranks
   */
  int run(boolean threads) {
    List<Map<String, Object>> results = new ArrayList<>();
    try {
      if (tests.any()) {
        for (String backend : context.settings().backends()) {
          results.add(test(context.with(context.settings().on(backend))));
        }
      } else if (context.settings().onDevice()) {
        engine = EngineName.CUDA;
        String named = context.settings().nodes().wire();
        wire = WireConfig.builder().wire(named).build().wire();
        results.addAll(new BackendComparison(context, threads, this::found).run());
      } else {
        if (context.settings().highThroughput()) {
          highThroughput(threads).forEach(result -> results.add(result.tree()));
        }
        if (context.settings().lowLatency()) {
          lowLatency(threads).forEach(result -> results.add(result.tree()));
        }
      }
    } catch (VerificationFailure e) {
      context.print(
          context.style().bad("WRONG RESULT: " + e.getMessage()) + "\nThe bench ends here.\n");
      return ExitCodes.FAILED;
    }
    List<List<TracedPart>> operations = context.trace().gather(context.group());
    if (context.printing()) {
      files.write(
          report(across, threads).tree(results, engine, across.severalNodes() ? wire : null),
          operations == null ? null : new TraceText(operations, across.settings().nodes()));
    }
    return ExitCodes.OK;
  }

  /** Runs the wanted test; returns its result for the artifact. */
  private Map<String, Object> test(RankContext own) {
    if (tests.shrink()) {
      try (ShrinkTest test = new ShrinkTest(own)) {
        found(test.context());
        ran(test.engine(), test.wire(), test.head());
        test.run();
        context.print("verified  " + context.style().good(test.report()) + "\n");
        return test.tree();
      }
    }
    try (PressureTest test = new PressureTest(own)) {
      found(test.context());
      ran(test.engine(), test.wire(), test.head());
      test.run(tests.pressureSeconds());
      context.print("verified  " + context.style().good(test.report()) + "\n");
      return test.tree(tests.pressureSeconds());
    }
  }

  /** Keeps the nodes that a buffer has found: where they are left out, the options name none. */
  private void found(RankContext ofBuffer) {
    if (ofBuffer.severalNodes()) {
      across = context.with(context.settings().across(ofBuffer.settings().nodes()));
    }
  }

  private void ran(String withEngine, String overWire, String head) {
    engine = withEngine;
    wire = overWire;
    context.print(head);
  }

  private static BenchReport report(RankContext own, boolean threads) {
    return new BenchReport(own.settings(), own.group().size(), threads);
  }

  /** One payload after the other: each needs a buffer of its own. */
  private List<Result> highThroughput(boolean threads) {
    List<Result> results = new ArrayList<>();
    for (Payload payload : context.settings().payloads()) {
      RankContext own = context.with(context.settings().only(payload));
      context.print(results.isEmpty() ? "" : "\n");
      results.addAll(highThroughput(own, threads));
    }
    return results;
  }

  private List<Result> highThroughput(RankContext own, boolean threads) {
    own.at("warming up");
    try (HighThroughputBench small = new HighThroughputBench(own.with(own.settings().small()))) {
      small.warmUp();
    }
    try (HighThroughputBench bench = new HighThroughputBench(own)) {
      engine = bench.engine();
      wire = bench.wire();
      BenchReport report = report(bench.context(), threads);
      found(bench.context());
      own.print(report.highThroughputHead(own.style(), bench.engine(), bench.threads()));
      own.print("verified  " + own.style().good(bench.verify()) + "\n");
      List<Result> results = bench.measure();
      own.print("\n" + report.table(own.style(), results));
      own.print("verified again: " + own.style().good(bench.verifyAgain()) + "\n");
      return results;
    }
  }

  private List<Result> lowLatency(boolean threads) {
    context.at("warming up low latency");
    try (LowLatencyBench small = new LowLatencyBench(context.with(context.settings().small()))) {
      small.warmUp();
    }
    try (LowLatencyBench bench = new LowLatencyBench(context)) {
      engine = bench.engine();
      wire = bench.wire();
      BenchReport report = report(bench.context(), threads);
      found(bench.context());
      context.print(
          (context.settings().highThroughput() ? "\n" : "")
              + report.lowLatencyHead(context.style(), bench.engine(), bench.threads()));
      context.print("verified  " + context.style().good(bench.verify()) + "\n");
      List<Result> results = bench.measure();
      context.print("\n" + report.table(context.style(), results));
      context.print("verified again: " + context.style().good(bench.verifyAgain()) + "\n");
      return results;
    }
  }
}
