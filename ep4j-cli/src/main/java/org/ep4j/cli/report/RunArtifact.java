package org.ep4j.cli.report;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.Collectors;
import org.ep4j.cli.CommandFailure;
import org.ep4j.cli.ExitCodes;
import org.ep4j.cli.text.Json;
import org.ep4j.cli.text.Units;
import org.ep4j.error.ErrorCode;
import org.ep4j.error.FileProblem;
import org.jspecify.annotations.Nullable;

/**
 * What one run of {@code bench ht}, {@code ll} or {@code all} recorded.
 *
 * @param name the file, or a name for a run without one
 * @param version version and revision of ep4j
 * @param time when it ended, UTC
 * @param environment the machine, for readers
 * @param configuration the options in effect, for readers
 * @param verified whether every output was equal to that of the oracle
 * @param results the operations
 */
public record RunArtifact(
    String name,
    String version,
    String time,
    Map<String, String> environment,
    Map<String, String> configuration,
    boolean verified,
    List<Measured> results) {
  /** Arguments of the JVM that change how code runs; others name modules and files. */
  private static final List<String> JVM_OPTIONS = List.of("-X", "-D", "-agent");

  /** A larger file holds no run: a million iterations take 20 MB. */
  private static final long MAX_BYTES = 256L << 20;

  /** Reads a file. */
  public static RunArtifact read(Path file) {
    RunArtifact run = of(file.toString(), tree(file));
    if (run.results.isEmpty()) {
      throw Fields.bad(file + ": results", "empty", "a list of measured operations");
    }
    return run;
  }

  private static @Nullable Object tree(Path file) {
    String text;
    try {
      // Devices and pipes may have no end, and a pipe cannot be read again for other checks.
      boolean regular = Files.isRegularFile(file);
      if (regular ? Files.size(file) > MAX_BYTES : Files.exists(file)) {
        throw Fields.bad(
            file.toString(),
            regular ? "%d bytes".formatted(Files.size(file)) : "no regular file",
            "a regular file of %d MiB at most".formatted(MAX_BYTES >> 20));
      }
      text = Files.readString(file);
    } catch (IOException e) {
      throw new UncheckedIOException(
          ErrorCode.FILE_READ.message(file + ": cannot be read: " + FileProblem.of(e)), e);
    }
    try {
      return Json.parse(text);
    } catch (IOException e) {
      String reason = String.valueOf(e.getMessage()).lines().findFirst().orElse("");
      throw Fields.bad(
          file.toString(), "no whole JSON text (" + Fields.printable(reason) + ")", "one");
    }
  }

  /** The run in the tree of an artifact. */
  static RunArtifact of(String name, @Nullable Object tree) {
    Fields fields = Fields.of(name, tree);
    checkFormat(fields);
    List<Fields> results = new ArrayList<>();
    for (Object result : fields.list("results")) {
      results.add(Fields.of("%s: results[%d]".formatted(name, results.size()), result));
    }
    return new RunArtifact(
        Fields.printable(name),
        fields.text("ep4j") + " (" + fields.text("git") + ")",
        fields.text("time"),
        words(fields.object("environment")),
        words(fields.object("configuration")),
        Boolean.TRUE.equals(fields.values().get("verified")),
        Measured.all(results));
  }

  private static void checkFormat(Fields fields) {
    fields.text("ep4j");
    if (fields.has("format") && !ReportPage.FORMAT.equals(fields.values().get("format"))) {
      throw new CommandFailure(
          ErrorCode.ARTIFACT_FORMAT,
          ExitCodes.FAILED,
          "%s has the format %s; this version reads %s: use ep4j %s, which wrote it"
              .formatted(
                  fields.place(),
                  Fields.printable(String.valueOf(fields.values().get("format"))),
                  ReportPage.FORMAT,
                  fields.text("ep4j")));
    }
  }

  private static Map<String, String> words(Fields fields) {
    Map<String, String> words = new LinkedHashMap<>();
    fields
        .values()
        .forEach(
            (name, value) ->
                words.put(
                    Fields.printable(String.valueOf(name)),
                    Fields.printable(word(String.valueOf(name), value))));
    return words;
  }

  private static String word(String name, @Nullable Object value) {
    return switch (value) {
      case null -> "not given";
      case Boolean flag -> flag ? "yes" : "no";
      case Number bytes when name.endsWith("_bytes") -> Units.bytes(bytes.longValue());
      case Double number when number == Math.rint(number) && Math.abs(number) < 1e15 ->
          Long.toString(number.longValue());
      case List<?> arguments when name.equals("flags") ->
          arguments.stream()
              .map(String::valueOf)
              .filter(argument -> JVM_OPTIONS.stream().anyMatch(argument::startsWith))
              .collect(Collectors.joining(" "));
      case List<?> items when items.isEmpty() -> "none";
      case List<?> items ->
          items.stream().map(item -> word("", item)).collect(Collectors.joining(", "));
      case Map<?, ?> map ->
          map.entrySet().stream()
              .map(entry -> entry.getKey() + " " + word(entry.getKey() + "", entry.getValue()))
              .collect(Collectors.joining(", "));
      default -> value.toString();
    };
  }

  /** An option in effect, or an empty text. */
  public String option(String name) {
    return configuration.getOrDefault(name, "");
  }
}
