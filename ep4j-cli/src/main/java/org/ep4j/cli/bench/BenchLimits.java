package org.ep4j.cli.bench;

import org.ep4j.ExpertBuffer;
import org.ep4j.cli.CommandFailure;
import org.ep4j.cli.CommandSpecs;
import org.ep4j.cli.ExitCodes;
import org.ep4j.cli.doctor.Machine;
import org.ep4j.cli.text.Units;
import org.ep4j.config.Layout;
import org.ep4j.error.ErrorCode;
import picocli.CommandLine.Model.CommandSpec;

/** Checks the settings once, before every rank would report the same error. */
final class BenchLimits {
  private BenchLimits() {}

  static void check(CommandSpec spec, BenchSettings settings, int worldSize) {
    rows(spec, settings);
    groups(spec, settings, worldSize);
    checkVariant(spec, settings.options());
    if (settings.highThroughput()) {
      for (Payload payload : settings.payloads()) {
        ExpertBuffer.sizes(settings.only(payload).highThroughputConfig(worldSize), worldSize);
      }
      device(spec, settings);
      // GPU rows need little host memory, and a GPU machine may report little free memory at first.
      if (!settings.onDevice()) {
        memory(settings, worldSize);
      }
    }
    if (settings.lowLatency()) {
      ExpertBuffer.sizes(settings.lowLatencyConfig(worldSize), worldSize);
    }
  }

  private static void groups(CommandSpec spec, BenchSettings settings, int worldSize) {
    int groups = settings.topkGroups();
    int nodes = settings.nodes().count(worldSize);
    CommandSpecs.checkValue(
        spec,
        groups >= 0 && (groups == 0 || (nodes > 1 && groups <= nodes)),
        "--topk-groups",
        groups,
        nodes > 1 ? "0.." + nodes + ", the nodes" : "0 on one node: declare --nodes");
    // The generator knows the other limits.
    var _ = settings.generator(0, worldSize);
  }

  private static void rows(CommandSpec spec, BenchSettings settings) {
    for (Payload payload : settings.payloads()) {
      CommandSpecs.checkValue(
          spec,
          settings.hidden() >= 1 && settings.hidden() % payload.block() == 0,
          "--hidden",
          settings.hidden(),
          "a multiple of %d for %s rows".formatted(payload.block(), BenchSettings.word(payload)));
      CommandSpecs.check(
          spec,
          !settings.lowLatency() || payload.lowLatency() != null,
          ErrorCode.INAPPLICABLE_OPTION,
          "--dtype %s is for ht only: use bf16, fp8 or nvfp4 for ll"
              .formatted(BenchSettings.word(payload)));
    }
  }

  private static void checkVariant(CommandSpec spec, BenchSettings.LowLatencyVariant variant) {
    CommandSpecs.check(
        spec,
        !variant.logFmt() || !variant.partial(),
        ErrorCode.CONFLICTING_OPTIONS,
        "--logfmt and --partial exclude each other: partial sums travel as bf16");
    CommandSpecs.check(
        spec,
        !variant.rankMajor() || !(variant.logFmt() || variant.partial()),
        ErrorCode.CONFLICTING_OPTIONS,
        "--rank-major excludes --logfmt and --partial: its rows are partial sums in bf16");
    CommandSpecs.check(
        spec,
        !variant.logFmt() || !variant.zeroCopy(),
        ErrorCode.CONFLICTING_OPTIONS,
        "--logfmt and --zero-copy exclude each other: encoded rows cannot be sent in place");
  }

  private static void device(CommandSpec spec, BenchSettings settings) {
    if (settings.onDevice()) {
      return;
    }
    BenchSettings.Mode mode = settings.mode();
    CommandSpecs.check(
        spec,
        mode == BenchSettings.Mode.EXACT || mode == BenchSettings.Mode.STATIC,
        ErrorCode.INAPPLICABLE_OPTION,
        "--mode %s needs GPUs: use exact or static on the host"
            .formatted(BenchSettings.word(mode)));
    CommandSpecs.checkValue(
        spec, settings.sms().size() == 1, "--sms", settings.sms(), "one number on the host");
  }

  /** Refuses settings for which the kernel would kill a rank for lack of memory. */
  private static void memory(BenchSettings settings, int worldSize) {
    int hidden = settings.hidden();
    long rowBytes =
        settings.payloads().stream()
            .mapToLong(payload -> payload.dispatchBytes(hidden) + payload.combineBytes(hidden))
            .max()
            .orElse(0);
    long inputs = (long) settings.plan().buffers() * settings.tokens() * rowBytes;
    // Rows to receive and to combine, and as much again for the ceilings.
    int copies =
        Math.min(settings.topk(), settings.layout() == Layout.FLAT ? worldSize : settings.topk());
    long regions = 2L * copies * settings.tokens() * rowBytes;
    long needed = worldSize * (inputs + regions);
    requireMemory(
        needed,
        "%d ranks of %d tokens".formatted(worldSize, settings.tokens()),
        "fewer --ranks, --tokens or --buffers, or a smaller --hidden");
  }

  /**
   * Refuses work that needs more memory than this machine has free.
   *
   * @param work what needs it
   * @param less what needs less
   */
  static void requireMemory(long needed, String work, String less) {
    long available = Machine.availableMemory();
    if (available > 0 && needed > available) {
      throw new CommandFailure(
          ErrorCode.NOT_ENOUGH_MEMORY,
          ExitCodes.FAILED,
          "%s need about %s of memory, %s are free: use %s"
              .formatted(work, Units.bytes(needed), Units.bytes(available), less));
    }
  }
}
