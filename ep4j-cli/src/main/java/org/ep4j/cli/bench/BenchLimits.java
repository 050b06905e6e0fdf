package org.ep4j.cli.bench;

import org.ep4j.ExpertBuffer;
import org.ep4j.Layout;
import org.ep4j.cli.CommandFailure;
import org.ep4j.cli.CommandSpecs;
import org.ep4j.cli.ExitCodes;
import org.ep4j.cli.doctor.Machine;
import org.ep4j.cli.text.Units;
import picocli.CommandLine.Model.CommandSpec;

/** Refuses here, once, what every rank of a measurement would refuse. */
final class BenchLimits {
  private BenchLimits() {}

  static void check(CommandSpec spec, BenchSettings settings, int worldSize) {
    rows(spec, settings);
    checkVariant(spec, settings.options());
    if (settings.highThroughput()) {
      ExpertBuffer.sizes(settings.highThroughputConfig(worldSize), worldSize);
      device(spec, settings);
      // Of rows on GPUs the host holds little, and a GPU machine may show little memory at first.
      if (!settings.onDevice()) {
        memory(settings, worldSize);
      }
    }
    if (settings.lowLatency()) {
      ExpertBuffer.sizes(settings.lowLatencyConfig(worldSize), worldSize);
    }
  }

  private static void rows(CommandSpec spec, BenchSettings settings) {
    for (Payload payload : settings.payloads()) {
      CommandSpecs.check(
          spec,
          settings.hidden() >= 1 && settings.hidden() % payload.block() == 0,
          "--hidden is %d; it must be a multiple of %d for %s rows"
              .formatted(settings.hidden(), payload.block(), BenchSettings.word(payload)));
      CommandSpecs.check(
          spec,
          !settings.lowLatency() || payload.lowLatency() != null,
          "--dtype %s is for ht only; ll takes bf16, fp8 or nvfp4"
              .formatted(BenchSettings.word(payload)));
    }
  }

  private static void checkVariant(CommandSpec spec, BenchSettings.LowLatencyVariant variant) {
    CommandSpecs.check(
        spec,
        !variant.logFmt() || !variant.partial(),
        "--logfmt and --partial exclude each other: partial sums travel as bf16");
    CommandSpecs.check(
        spec,
        !variant.rankMajor() || !(variant.logFmt() || variant.partial()),
        "--rank-major excludes --logfmt and --partial: its rows are partial sums in bf16");
    CommandSpecs.check(
        spec,
        !variant.logFmt() || !variant.zeroCopy(),
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
        "--mode %s is for GPUs; on the host it is exact or static"
            .formatted(BenchSettings.word(mode)));
    CommandSpecs.check(spec, settings.sms().size() == 1, "--sms takes one number on the host");
  }

  /** Refuses what this machine would end by killing a rank. */
  private static void memory(BenchSettings settings, int worldSize) {
    int hidden = settings.hidden();
    long rowBytes =
        settings.payload().dispatchBytes(hidden) + settings.payload().combineBytes(hidden);
    long inputs = (long) settings.plan().buffers() * settings.tokens() * rowBytes;
    // Rows received and to be combined, and as much again for the ceilings.
    int copies =
        Math.min(settings.topk(), settings.layout() == Layout.FLAT ? worldSize : settings.topk());
    long regions = 2L * copies * settings.tokens() * rowBytes;
    long needed = worldSize * (inputs + regions);
    long available = Machine.availableMemory();
    if (available > 0 && needed > available) {
      throw new CommandFailure(
          ExitCodes.FAILED,
          "%d ranks of %d tokens need about %s of memory, %s are available: fewer --ranks, --tokens"
                  .formatted(
                      worldSize, settings.tokens(), Units.bytes(needed), Units.bytes(available))
              + " or --buffers, or a smaller --hidden");
    }
  }
}
