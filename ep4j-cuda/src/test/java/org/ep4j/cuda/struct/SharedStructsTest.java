package org.ep4j.cuda.struct;

import static org.assertj.core.api.Assertions.assertThat;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.io.IOException;
import java.lang.foreign.MemorySegment;
import java.lang.reflect.Field;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.TreeMap;
import org.ep4j.conformance.world.HostCompiler;
import org.ep4j.conformance.world.HostCompiler.Outcome;
import org.ep4j.cuda.jit.KernelSources;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/**
 * Compilers confirm, for every field of every structure, that it lies where the host writes it, has
 * the name of the host, and is a pointer where the host writes addresses.
 */
class SharedStructsTest {
  private static final String ENTRY = "check.cu";

  /** The types of {@code common/ptx.cuh} for a compiler that does not know its instructions. */
  private static final String HOST_TYPES =
      """
      #pragma once
      typedef unsigned char u8;
      typedef unsigned int u32;
      typedef unsigned long long u64;
      typedef long long i64;
      #define __device__
      #define __forceinline__ inline
      """;

  private static final String IS_POINTER =
      """
      template <class T> constexpr bool is_pointer = false;
      template <class T> constexpr bool is_pointer<T*> = true;
      """;

  @TempDir
  @SuppressWarnings("NullAway.Init") // by JUnit
  private Path directory;

  @Test
  void theHostsCompilerAgrees() throws IOException, InterruptedException {
    HostCompiler.require("to compile the structures");
    Map<String, String> files = sources();
    files.put("common/ptx.cuh", HOST_TYPES);
    Outcome outcome = compile(files, "g++", "-std=c++17", "-Wno-invalid-offsetof", "-x", "c++");
    assertThat(outcome.status()).as(outcome.output()).isZero();
  }

  @Test
  void theCompilerOfKernelsAgrees() throws IOException, InterruptedException {
    assumeTrue(isOnPath("nvcc"), "no nvcc to compile the structures");
    Outcome outcome = compile(sources(), "nvcc", "-std=c++17", "-arch=sm_90a", "-cubin");
    assertThat(outcome.status()).as(outcome.output()).isZero();
  }

  @Test
  void aFieldOfAnotherSizeDoesNotCompile() throws IOException, InterruptedException {
    HostCompiler.require("to compile the structures");
    Map<String, String> files = sources();
    files.put("common/ptx.cuh", HOST_TYPES);
    files.computeIfPresent(
        "structs/receipt.cuh", (_, text) -> text.replace("u64 ticket;", "u32 ticket;"));
    Outcome outcome = compile(files, "g++", "-std=c++17", "-x", "c++");
    assertThat(outcome.status()).isNotZero();
    assertThat(outcome.output()).contains("Receipt::ticket");
  }

  private Outcome compile(Map<String, String> files, String... command)
      throws IOException, InterruptedException {
    for (Map.Entry<String, String> file : files.entrySet()) {
      Path target = directory.resolve(file.getKey());
      Files.createDirectories(Objects.requireNonNull(target.getParent()));
      Files.writeString(target, file.getValue());
    }
    List<String> all = new ArrayList<>(List.of(command));
    if (command[0].equals("g++")) {
      all.add("-fsyntax-only");
    } else {
      all.addAll(List.of("-o", directory.resolve("out.cubin").toString()));
    }
    all.addAll(List.of("-I", directory.toString(), directory.resolve(ENTRY).toString()));
    return HostCompiler.run(all, 120);
  }

  private static boolean isOnPath(String program) {
    return Arrays.stream(System.getenv("PATH").split(":", -1))
        .anyMatch(place -> Files.isExecutable(Path.of(place, program)));
  }

  /** A program that compares all structures with what the host writes. */
  private static Map<String, String> sources() {
    Map<String, String> files = new TreeMap<>();
    StringBuilder entry = new StringBuilder();
    StringBuilder checks = new StringBuilder();
    for (Struct struct : SharedStructs.ALL) {
      files.putAll(KernelSources.of(struct.file()).files());
      entry.append("#include \"").append(struct.file()).append("\"\n");
      long[] memory = new long[struct.bytes() / Long.BYTES];
      struct.placeIn(MemorySegment.ofArray(memory));
      assertThat(check(struct, struct.name(), "", memory, checks)).isPositive();
    }
    files.put(ENTRY, entry + IS_POINTER + checks);
    return files;
  }

  /** Adds the checks of all fields, nested ones too; returns their number. */
  private static int check(
      Struct struct, String type, String outer, long[] memory, StringBuilder checks) {
    int number = 0;
    for (Field field : struct.getClass().getFields()) {
      String name = outer + FieldOffsets.inKernels(field.getName());
      switch (FieldOffsets.valueOf(field, struct)) {
        case Struct.U64 word -> {
          word.set(-1);
          checks.append(check(type, name, memory, false));
          word.set(0);
        }
        case Struct.Pointer address -> {
          address.set(-1L);
          checks.append(check(type, name, memory, true));
          address.setNull();
        }
        case Struct part when part.getClass() != struct.getClass() ->
            number += check(part, type, name + ".", memory, checks);
        default -> {}
      }
      number++;
    }
    return number;
  }

  /** The field is the only word that is not 0. */
  private static String check(String type, String name, long[] memory, boolean pointer) {
    int at = 0;
    while (memory[at] == 0) {
      at++;
    }
    return "static_assert(__builtin_offsetof(%1$s, %2$s) == %3$d, \"offset of %1$s::%2$s\");\n"
            .formatted(type, name, at * Long.BYTES)
        + "static_assert(is_pointer<decltype(((%1$s*)0)->%2$s)> == %3$s, \"type of %1$s::%2$s\");\n"
            .formatted(type, name, pointer);
  }
}
