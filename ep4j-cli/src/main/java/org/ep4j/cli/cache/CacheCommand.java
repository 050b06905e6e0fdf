package org.ep4j.cli.cache;

import org.ep4j.cli.CommandSpecs;
import org.ep4j.error.ErrorCode;
import org.jspecify.annotations.Nullable;
import picocli.CommandLine.Command;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Spec;

/** Manages the cache of compiled kernels. */
@Command(
    name = "cache",
    description = {
      "List, fill or clear the cache of compiled kernels.",
      "",
      "Kernels are compiled on first use, and stored in the directory of EP4J_CUDA_CACHE (default"
          + " ~/.cache/ep4j/cubin) up to EP4J_CUDA_CACHE_MB (default 512). The least recently used"
          + " kernels are deleted first.",
      ""
    },
    subcommands = {CacheListCommand.class, CacheWarmCommand.class, CacheClearCommand.class})
public final class CacheCommand implements Runnable {
  @Spec private @Nullable CommandSpec spec;

  /** Used by picocli. */
  public CacheCommand() {}

  @Override
  public void run() {
    throw CommandSpecs.usage(
        CommandSpecs.require(spec),
        ErrorCode.MISSING_ARGUMENT,
        "no subcommand: use list, warm or clear");
  }
}
