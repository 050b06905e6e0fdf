package org.ep4j.architecture;

import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Locale;
import java.util.Set;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.snakeyaml.engine.v2.api.Load;
import org.snakeyaml.engine.v2.api.LoadSettings;

/**
 * A Dockerfile as its instructions, parsed by the part of the grammar that this repository uses: no
 * heredocs, no parser directives, continuation by a backslash.
 *
 * @param instructions in their order
 */
record Dockerfile(List<Instruction> instructions) {
  private static final Set<String> KNOWN =
      Set.of(
          "ADD",
          "ARG",
          "CMD",
          "COPY",
          "ENTRYPOINT",
          "ENV",
          "EXPOSE",
          "FROM",
          "HEALTHCHECK",
          "LABEL",
          "RUN",
          "SHELL",
          "STOPSIGNAL",
          "USER",
          "VOLUME",
          "WORKDIR");
  private static final Pattern FROM =
      Pattern.compile("(?:--platform=\\S+ )?(\\S+)(?: AS ([a-z][a-z0-9_.-]*))?");
  private static final Pattern COPY_FROM = Pattern.compile("--from=(\\S+)");
  private static final Pattern ASSIGNMENT = Pattern.compile("([A-Za-z_][A-Za-z0-9_]*)(=.*)?");
  private static final Pattern REFERENCE = Pattern.compile("\\$\\{?([A-Za-z_][A-Za-z0-9_]*)");

  /** Variables that every image has. */
  private static final Set<String> INHERITED = Set.of("PATH", "HOME");

  /**
   * One instruction.
   *
   * @param line number of its first line
   * @param name upper case
   * @param arguments one line, without the continuations
   */
  record Instruction(int line, String name, String arguments) {}

  /**
   * Parses and checks a file.
   *
   * @throws IllegalArgumentException if it is no Dockerfile; names the line
   */
  static Dockerfile parse(String text) {
    List<Instruction> instructions = new ArrayList<>();
    StringBuilder pending = new StringBuilder();
    int first = 0;
    int number = 0;
    for (String line : text.lines().toList()) {
      number++;
      String content = line.strip();
      if (content.startsWith("#") || (content.isEmpty() && pending.isEmpty())) {
        continue;
      }
      check(!content.isEmpty(), number, "an empty line inside an instruction");
      first = pending.isEmpty() ? number : first;
      boolean goesOn = content.endsWith("\\");
      String part = goesOn ? content.substring(0, content.length() - 1).strip() : content;
      pending.append(pending.isEmpty() ? "" : " ").append(part);
      if (!goesOn) {
        instructions.add(instruction(first, pending.toString()));
        pending.setLength(0);
      }
    }
    check(pending.isEmpty(), number, "the last instruction ends in a backslash");
    Dockerfile file = new Dockerfile(List.copyOf(instructions));
    file.checkOrder();
    return file;
  }

  /** Arguments of the last instruction of this name, which replaces the earlier ones. */
  String last(String name) {
    return instructions.stream()
        .filter(instruction -> instruction.name().equals(name))
        .reduce((_, later) -> later)
        .orElseThrow(() -> new IllegalArgumentException("no " + name))
        .arguments();
  }

  /** The strings of an instruction in the JSON form, which is a part of YAML. */
  static List<String> words(String arguments) {
    Object words = new Load(LoadSettings.builder().build()).loadFromString(arguments);
    if (!(words instanceof List<?> list)) {
      throw new IllegalArgumentException(arguments + " is no JSON array");
    }
    return list.stream().map(String::valueOf).toList();
  }

  private static Instruction instruction(int line, String text) {
    String[] parts = text.split("\\s+", 2);
    String name = parts[0];
    check(KNOWN.contains(name), line, "no instruction " + name.toUpperCase(Locale.ROOT));
    check(parts.length == 2, line, name + " needs arguments");
    return new Instruction(line, name, parts[1]);
  }

  /** ARG before the first FROM, names before their use. */
  private void checkOrder() {
    Set<String> stages = new HashSet<>();
    Set<String> global = new HashSet<>();
    Set<String> known = null;
    for (Instruction instruction : instructions) {
      int line = instruction.line();
      String arguments = instruction.arguments();
      if (instruction.name().equals("FROM")) {
        Matcher from = FROM.matcher(arguments);
        check(from.matches(), line, "FROM takes IMAGE or IMAGE AS NAME");
        checkReferences(instruction, global);
        known = new HashSet<>(INHERITED);
        if (from.group(2) != null) {
          check(stages.add(from.group(2)), line, "a second stage " + from.group(2));
        }
        continue;
      }
      check(known != null || instruction.name().equals("ARG"), line, "only ARG goes before FROM");
      Set<String> scope = known == null ? global : known;
      switch (instruction.name()) {
        case "ARG", "ENV" -> {
          checkReferences(instruction, scope);
          Matcher assignment = ASSIGNMENT.matcher(arguments);
          check(assignment.matches(), line, instruction.name() + " takes NAME=VALUE");
          scope.add(assignment.group(1));
        }
        case "COPY", "ADD" -> {
          checkReferences(instruction, scope);
          Matcher from = COPY_FROM.matcher(arguments);
          check(!from.find() || stages.contains(from.group(1)), line, "no stage of this name");
          long places =
              List.of(arguments.split(" ")).stream().filter(a -> !a.startsWith("--")).count();
          check(places >= 2, line, "needs a source and a destination");
        }
        case "CMD", "ENTRYPOINT" -> words(arguments);
        default -> checkReferences(instruction, scope);
      }
    }
    check(known != null, 1, "no FROM");
  }

  private static void checkReferences(Instruction instruction, Set<String> known) {
    Matcher reference = REFERENCE.matcher(instruction.arguments());
    while (reference.find()) {
      check(known.contains(reference.group(1)), instruction.line(), "no ARG " + reference.group(1));
    }
  }

  private static void check(boolean holds, int line, String message) {
    if (!holds) {
      throw new IllegalArgumentException("line " + line + ": " + message);
    }
  }
}
