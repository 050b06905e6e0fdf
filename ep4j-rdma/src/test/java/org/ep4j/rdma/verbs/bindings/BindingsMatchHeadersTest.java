package org.ep4j.rdma.verbs.bindings;

import static org.assertj.core.api.Assertions.assertThat;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.io.IOException;
import java.lang.foreign.MemoryLayout;
import java.lang.foreign.PaddingLayout;
import java.lang.foreign.StructLayout;
import java.lang.reflect.Field;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Compares structures and constants with infiniband/verbs.h, as compiled by a C compiler. */
class BindingsMatchHeadersTest {
  private static final Path HEADER = Path.of("/usr/include/infiniband/verbs.h");

  @TempDir private Path directory;

  @Test
  void everyStructureHasTheLayoutOfTheHeader() throws Exception {
    StringBuilder body = new StringBuilder();
    Map<String, String> ours = new LinkedHashMap<>();
    int structures = 0;
    for (Field field : VerbsLayouts.class.getDeclaredFields()) {
      if (!(field.get(null) instanceof StructLayout structure)) {
        continue;
      }
      structures++;
      String type = structure.name().orElseThrow();
      ask(body, type, "sizeof(struct " + type + ")");
      ours.put(type, String.valueOf(structure.byteSize()));
      for (MemoryLayout member : structure.memberLayouts()) {
        if (member instanceof PaddingLayout) {
          continue;
        }
        String name = member.name().orElseThrow();
        ask(body, type + "." + name, "offsetof(struct " + type + ", " + name + ")");
        ours.put(type + "." + name, String.valueOf(VerbsLayouts.offset(structure, name)));
        ask(body, type + "." + name + ":bytes", "sizeof(((struct " + type + "*)0)->" + name + ")");
        ours.put(type + "." + name + ":bytes", String.valueOf(member.byteSize()));
      }
    }
    assertThat(structures).isGreaterThan(8);
    assertThat(run(body.toString())).isEqualTo(ours);
  }

  @Test
  void everyNumberIsThatOfTheHeader() throws Exception {
    StringBuilder body = new StringBuilder();
    Map<String, String> ours = new LinkedHashMap<>();
    for (Field field : VerbsConstants.class.getDeclaredFields()) {
      ask(body, field.getName(), "(size_t)" + field.getName());
      ours.put(field.getName(), String.valueOf(field.getInt(null)));
    }
    assertThat(ours).hasSizeGreaterThan(20);
    assertThat(run(body.toString())).isEqualTo(ours);
  }

  private static void ask(StringBuilder body, String name, String expression) {
    body.append("printf(\"").append(name).append(" %zu\\n\", ").append(expression).append(");\n");
  }

  /** Compiles and runs a program that prints lines with a name, a space and a value. */
  private Map<String, String> run(String body) throws IOException, InterruptedException {
    assumeTrue(Files.exists(HEADER), "no " + HEADER + ": install libibverbs-dev");
    assumeTrue(Files.isExecutable(Path.of("/usr/bin/gcc")), "no gcc to compile " + HEADER);
    Path source = directory.resolve("ask.c");
    Path program = directory.resolve("ask");
    Files.writeString(
        source,
        "#include <stddef.h>\n#include <stdio.h>\n#include <infiniband/verbs.h>\nint main() {\n"
            + body
            + "return 0;\n}\n");
    execute(List.of("gcc", "-w", "-o", program.toString(), source.toString()));
    Map<String, String> answers = new LinkedHashMap<>();
    for (String line : execute(List.of(program.toString()))) {
      int blank = line.indexOf(' ');
      answers.put(line.substring(0, blank), line.substring(blank + 1));
    }
    return answers;
  }

  private static List<String> execute(List<String> command)
      throws IOException, InterruptedException {
    Process process = new ProcessBuilder(command).redirectErrorStream(true).start();
    List<String> lines;
    try (var reader = process.inputReader(StandardCharsets.UTF_8)) {
      lines = reader.lines().toList();
    }
    assertThat(process.waitFor(60, TimeUnit.SECONDS)).isTrue();
    assertThat(process.exitValue()).as(String.join("\n", lines)).isZero();
    return lines;
  }
}
