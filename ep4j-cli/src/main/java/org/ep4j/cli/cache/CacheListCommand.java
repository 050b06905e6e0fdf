package org.ep4j.cli.cache;

import java.io.PrintWriter;
import java.time.Duration;
import java.time.Instant;
import java.util.List;
import java.util.concurrent.Callable;
import org.ep4j.cli.CommandSpecs;
import org.ep4j.cli.ExitCodes;
import org.ep4j.cli.text.Style;
import org.ep4j.cli.text.Table;
import org.ep4j.cli.text.Units;
import org.ep4j.cuda.jit.CubinCache;
import org.jspecify.annotations.Nullable;
import picocli.CommandLine.Command;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Spec;

/** Prints the content of the cache. */
@Command(name = "list", description = "Print the kernels in the cache, last used first.")
final class CacheListCommand implements Callable<Integer> {
  @Spec private @Nullable CommandSpec spec;

  @Override
  public Integer call() {
    PrintWriter out = CommandSpecs.require(spec).commandLine().getOut();
    CubinCache cache = CubinCache.standard(System.getenv()).requireDirectory();
    List<CubinCache.Entry> entries = cache.list();
    long total = entries.stream().mapToLong(CubinCache.Entry::bytes).sum();
    if (!entries.isEmpty()) {
      Table table = new Table("kernel", "size", "last used", "compiler");
      for (CubinCache.Entry entry : entries) {
        table.row(
            entry.description(),
            Units.bytes(entry.bytes()),
            ago(entry.lastUsed()),
            compiler(entry));
      }
      out.print(table.render(Style.detect()));
    }
    out.printf(
        "kernels: %d, %s of at most %s, in %s%n",
        entries.size(), Units.bytes(total), Units.bytes(cache.limitBytes()), cache.directory());
    out.flush();
    return ExitCodes.OK;
  }

  private static String ago(Instant time) {
    long minutes = Math.max(0, Duration.between(time, Instant.now()).toMinutes());
    return minutes < 60
        ? minutes + " min ago"
        : minutes < 48 * 60 ? minutes / 60 + " h ago" : minutes / (24 * 60) + " days ago";
  }

  /** The part of the key behind the hash. */
  private static String compiler(CubinCache.Entry entry) {
    return entry.key().substring(entry.key().indexOf('-') + 1);
  }
}
