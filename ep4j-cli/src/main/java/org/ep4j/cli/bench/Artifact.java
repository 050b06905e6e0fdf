package org.ep4j.cli.bench;

import java.io.PrintStream;
import java.io.PrintWriter;
import java.time.Instant;
import java.time.temporal.ChronoUnit;
import java.util.LinkedHashMap;
import java.util.Map;
import org.ep4j.cli.Build;
import org.ep4j.cli.doctor.Machine;
import org.ep4j.cli.text.Json;
import org.ep4j.cli.text.OutputFile;
import org.jspecify.annotations.Nullable;
import picocli.CommandLine;
import picocli.CommandLine.Model.CommandSpec;

/** The JSON file of a measurement. */
final class Artifact {
  private Artifact() {}

  /** The first fields of every artifact: program, time, environment. */
  static Map<String, Object> head() {
    Map<String, Object> tree = new LinkedHashMap<>();
    tree.put("ep4j", Build.version());
    tree.put("git", Build.revision());
    tree.put("time", Instant.now().truncatedTo(ChronoUnit.SECONDS).toString());
    tree.put("environment", Machine.tree());
    return tree;
  }

  /** Writes the file. */
  static void write(OutputFile file, Map<String, Object> tree) {
    file.write(Json.text(tree));
  }

  /** The stream for tables: standard error if the artifact is written to standard output. */
  static PrintStream tables(@Nullable OutputFile artifact) {
    return isStandardOutput(artifact) ? System.err : System.out;
  }

  /** The same as the writer of a command. */
  static PrintWriter tables(@Nullable OutputFile artifact, CommandSpec spec) {
    CommandLine line = spec.commandLine();
    return isStandardOutput(artifact) ? line.getErr() : line.getOut();
  }

  private static boolean isStandardOutput(@Nullable OutputFile artifact) {
    return artifact != null && artifact.isStandardOutput();
  }
}
