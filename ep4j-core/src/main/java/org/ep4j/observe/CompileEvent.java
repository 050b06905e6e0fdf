package org.ep4j.observe;

import jdk.jfr.Category;
import jdk.jfr.DataAmount;
import jdk.jfr.Description;
import jdk.jfr.Event;
import jdk.jfr.Label;
import jdk.jfr.Name;
import jdk.jfr.StackTrace;

/** The first request for a kernel in a process: begun with it, ended by {@link #ended}. */
@Name("org.ep4j.Compile")
@Label("Compilation of a kernel")
@Category({"ep4j"})
@Description("A kernel was compiled, or found in a cache")
@StackTrace(false)
public final class CompileEvent extends Event {
  /** An event that has not begun. */
  public CompileEvent() {}

  /** The kernel and its constants. */
  @Label("Kernel")
  public String kernel = "";

  /** The architecture that it is for. */
  @Label("Architecture")
  public String architecture = "";

  /** Whether a cache had it; else it was compiled. */
  @Label("Cached")
  public boolean cached;

  /** Bytes of the compiled kernel. */
  @Label("Size")
  @DataAmount
  public long bytes;

  /** Ends the event and commits it; no-op without a recording. */
  public void ended(String name, String target, boolean found, long size) {
    end();
    if (shouldCommit()) {
      kernel = name;
      architecture = target;
      cached = found;
      bytes = size;
      commit();
    }
  }
}
