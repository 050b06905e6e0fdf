package org.ep4j.cli.cache;

import java.util.concurrent.Callable;
import org.ep4j.cli.CommandSpecs;
import org.ep4j.cli.ExitCodes;
import org.ep4j.cuda.jit.CubinCache;
import org.jspecify.annotations.Nullable;
import picocli.CommandLine.Command;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Spec;

/** Clears the cache. */
@Command(name = "clear", description = "Delete all kernels in the cache; running jobs keep theirs.")
final class CacheClearCommand implements Callable<Integer> {
  @Spec private @Nullable CommandSpec spec;

  @Override
  public Integer call() {
    CubinCache cache = CubinCache.standard(System.getenv()).requireDirectory();
    int deleted = cache.clear();
    CommandSpecs.require(spec)
        .commandLine()
        .getOut()
        .printf("kernels deleted: %d, from %s%n", deleted, cache.directory());
    return ExitCodes.OK;
  }
}
