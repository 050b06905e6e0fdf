package org.ep4j.cli.cache;

import org.ep4j.cli.CommandSpecs;
import org.jspecify.annotations.Nullable;
import picocli.CommandLine.Command;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.ParameterException;
import picocli.CommandLine.Spec;

/** Looks after the cache of compiled kernels. */
@Command(
    name = "cache",
    description = {
      "List, fill or empty the cache of compiled kernels.",
      "",
      "Kernels are compiled when they are first needed, and kept in the directory of"
          + " EP4J_CUDA_CACHE (default ~/.cache/ep4j/cubin) up to EP4J_CUDA_CACHE_MB (default"
          + " 512); what was not used for longest goes first.",
      ""
    },
    subcommands = {CacheListCommand.class, CacheWarmCommand.class, CacheClearCommand.class})
public final class CacheCommand implements Runnable {
  @Spec private @Nullable CommandSpec spec;

  /** Used by picocli. */
  public CacheCommand() {}

  @Override
  public void run() {
    throw new ParameterException(
        CommandSpecs.require(spec).commandLine(), "say what to do: list, warm or clear");
  }
}
