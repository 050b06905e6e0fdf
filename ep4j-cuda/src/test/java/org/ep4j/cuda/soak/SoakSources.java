package org.ep4j.cuda.soak;

import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.List;
import java.util.Locale;
import java.util.Objects;
import java.util.SortedMap;
import java.util.TreeMap;
import java.util.stream.Collectors;
import org.ep4j.cuda.jit.KernelSources;
import org.ep4j.cuda.jit.KernelSpec;

/** The text of the soak's kernels: files next to this class, and one generated from its enums. */
final class SoakSources {
  static final String ENTRY = "soak.cu";
  private static final List<String> FILES =
      List.of(ENTRY, "soak.cuh", "soak_row_table.cuh", "soak_rows.cuh", "soak_sums.cuh");

  private SoakSources() {}

  /** Text by file name. */
  static SortedMap<String, String> files() {
    TreeMap<String, String> files = new TreeMap<>();
    FILES.forEach(name -> files.put(name, read(name)));
    files.put("words.cuh", words());
    return files;
  }

  /** Spec for the compiler of engines. */
  static KernelSpec spec(String architecture) {
    return new KernelSpec(new KernelSources(ENTRY, files()), new TreeMap<>(), architecture);
  }

  private static String words() {
    String fields =
        Arrays.stream(SoakField.values())
            .map(word -> "  u64 " + word.name().toLowerCase(Locale.ROOT) + ";\n")
            .collect(Collectors.joining());
    String what =
        Arrays.stream(SoakCheck.values()).map(Enum::name).collect(Collectors.joining(", "));
    return "#pragma once\n\nstruct Words {\n"
        + fields
        + "};\n\nenum What { "
        + what
        + " };\n\n#define POISON 0xFDFDFDFDFDFDFDFDull\n";
  }

  static String read(String name) {
    try (InputStream in = SoakSources.class.getResourceAsStream(name)) {
      return new String(Objects.requireNonNull(in, name).readAllBytes(), StandardCharsets.UTF_8);
    } catch (IOException e) {
      throw new UncheckedIOException("reading " + name, e);
    }
  }
}
