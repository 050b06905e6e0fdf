package org.ep4j.cuda.emulator;

import static org.assertj.core.api.Assertions.assertThat;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.HashSet;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Objects;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentHashMap;
import java.util.regex.Pattern;
import org.ep4j.conformance.world.HostCompiler;
import org.ep4j.conformance.world.HostCompiler.Outcome;
import org.ep4j.cuda.jit.BuildCache;
import org.ep4j.cuda.jit.KernelSources;

/**
 * Kernels in a directory with the emulator, which replaces the machine's instructions, so that a
 * C++ compiler of the host builds a program.
 */
final class EmulatedKernels {
  private static final List<String> EMULATOR =
      List.of(
          "fibers.hpp",
          "memory.hpp",
          "threads.hpp",
          "machine.hpp",
          "builtins.hpp",
          "pairs.hpp",
          "common/ptx.cuh",
          "moe/tensor_cores.cuh",
          "routing.hpp",
          "region.hpp",
          "operations.hpp",
          "dispatching.hpp",
          "combining.hpp",
          "internode_nodes.hpp",
          "internode_worlds.hpp",
          "missing_rank.hpp",
          "low_latency_rows.hpp",
          "low_latency_region.hpp",
          "low_latency_expected.hpp",
          "low_latency_deliveries.hpp",
          "wire.hpp",
          "low_latency_wire.hpp",
          "low_latency_calls.hpp",
          "kernel_library.cpp",
          "main.hpp",
          "dispatch_world.hpp",
          "combine_world.hpp",
          "many_ranks_world.hpp",
          "observed_waits.hpp",
          "observation_world.hpp",
          "internode_observation_world.hpp",
          "internode_hasty_rank_world.hpp",
          "stale_rank_fence_world.hpp",
          "timeout_attribution_world.hpp",
          "internode_world.hpp",
          "internode_timeout_attribution_world.hpp",
          "low_latency_world.cpp",
          "low_latency_rank_major_world.cpp",
          "low_latency_mixed_world.cpp",
          "low_latency_flagged_world.cpp",
          "low_latency_rank_major_flagged_world.cpp",
          "low_latency_mapped_world.cpp",
          "low_latency_rank_major_mapped_world.cpp",
          "low_latency_transport.hpp",
          "low_latency_puts_world.cpp",
          "low_latency_library_world.cpp",
          "low_latency_rank_major_library_world.cpp",
          "low_latency_rank_major_puts_world.cpp",
          "proxy_world.cpp",
          "internode_endpoint.hpp",
          "internode_proxies.hpp",
          "internode_library.hpp",
          "one_node_worlds.hpp",
          "one_node.cpp",
          "across_nodes.cpp",
          "across_nodes_library.cpp",
          "put_library.hpp",
          "put_transports.hpp",
          "putting.hpp",
          "routing_counts_world.cpp",
          "put_stores_world.cpp",
          "put_rings_world.cpp",
          "put_library_world.cpp");

  /** The few cases of a usual run take less time than their compilation. */
  private static final boolean FEW_CASES =
      !Boolean.getBoolean("ep4j.full") && System.getProperty("ep4j.cases") == null;

  /** One program less to compile by default. A mistake in full compiles the smallest program. */
  private static final String ONE_NODE = FEW_CASES ? "across_nodes" : "one_node";

  /** Programs of several worlds, which run the same kernels. Other worlds are programs. */
  private static final Map<String, String> PROGRAMS =
      Map.ofEntries(
          Map.entry("dispatch_world", ONE_NODE),
          Map.entry("combine_world", ONE_NODE),
          Map.entry("many_ranks_world", ONE_NODE),
          Map.entry("stale_rank_fence_world", ONE_NODE),
          Map.entry("timeout_attribution_world", ONE_NODE),
          Map.entry("internode_world", "across_nodes"),
          Map.entry("internode_timeout_attribution_world", "across_nodes"),
          Map.entry("internode_hasty_rank_world", "across_nodes"),
          Map.entry("low_latency_shared_words_world", "low_latency_mapped_world"),
          Map.entry(
              "low_latency_rank_major_shared_words_world", "low_latency_rank_major_mapped_world"),
          Map.entry("low_latency_hasty_world", "low_latency_mapped_world"),
          Map.entry("low_latency_observation_world", "low_latency_mixed_world"),
          Map.entry("low_latency_mapped_observation_world", "low_latency_mapped_world"),
          Map.entry("low_latency_puts_observation_world", "low_latency_puts_world"),
          Map.entry("observation_world", ONE_NODE),
          Map.entry("internode_observation_world", "across_nodes"));

  /** In the place of the name of a world: the first of the program. */
  private static final String FIRST_WORLD = "-";

  /** Locks of programs that are compiled, by key: tests that run at once may need the same. */
  private static final Map<String, Object> COMPILING = new ConcurrentHashMap<>();

  /** Architectures that the emulator supports: 64-bit, little-endian. */
  private static final Set<String> ARCHITECTURES = Set.of("amd64", "x86_64", "aarch64");

  /** Kernels that worlds run; each includes its dependencies. */
  private static final List<String> ENTRIES =
      List.of(
          "dispatch/dispatch.cu",
          "dispatch/expert_dispatch.cu",
          "dispatch/scale_rows.cu",
          "dispatch/expert_ids.cu",
          "dispatch/routing_counts.cu",
          "combine/combine.cu",
          "combine/expert_combine.cu",
          "combine/expert_pull_combine.cu",
          "internode/internode_dispatch.cu",
          "internode/internode_expert_dispatch.cu",
          "internode/internode_combine.cu",
          "internode/internode_by_experts.cu",
          "lowlatency/low_latency_dispatch.cu",
          "lowlatency/low_latency_combine.cu",
          "probe/proxy_probe.cu",
          "probe/put_probe.cu");

  /**
   * Sums as on the GPU: the host's compiler must not fuse two roundings into one. _FORTIFY_SOURCE
   * rejects switching stacks by longjmp.
   */
  private static final List<String> OPTIONS =
      List.of(
          FEW_CASES ? "-Og" : "-O1", "-std=c++20", "-w", "-ffp-contract=off", "-U_FORTIFY_SOURCE");

  private static final Pattern INCLUDE =
      Pattern.compile("^[ \\t]*#[ \\t]*include[ \\t]*\"([^\"]+)\"", Pattern.MULTILINE);
  private static final Pattern DYNAMIC =
      Pattern.compile(
          "extern __shared__ (?:__align__\\(\\d+\\) )?(?<type>\\w+\\*?) (?<name>\\w+)\\[\\];");
  private static final Pattern STATIC =
      Pattern.compile(
          "^ *__shared__ (?<type>\\w+) (?<name>\\w+)(?<sizes>(?:\\[[\\w +]+\\])*);",
          Pattern.MULTILINE);

  private final Path directory;
  private final TreeMap<String, String> kernels = new TreeMap<>();

  /** Skips the test without a compiler or on an unsupported architecture. */
  EmulatedKernels(Path directory) {
    String system = System.getProperty("os.name") + " on " + System.getProperty("os.arch");
    assumeTrue(
        system.toLowerCase(Locale.ROOT).startsWith("linux")
            && ARCHITECTURES.contains(System.getProperty("os.arch")),
        "the emulator of kernels does not support " + system);
    HostCompiler.require("to compile the kernels for the host");
    this.directory = directory;
    for (String entry : ENTRIES) {
      kernels.putAll(KernelSources.of(entry).files());
    }
    // Worlds run both kinds of combines by one program, which compiles in half the time.
    change(
        "combine/combine_parameters.cuh",
        "constexpr bool APPLIES_WEIGHTS = EP4J_APPLY_WEIGHTS;",
        "#define APPLIES_WEIGHTS (p.slot_weights != nullptr)");
    // Short rows fill the vectors of all threads.
    change(
        "combine/expert_jobs.cuh",
        "constexpr u32 SUM_VECTORS = 4;",
        "constexpr u32 SUM_VECTORS = 2;");
    // The few groups of a small world fill the notices of a pipeline.
    change("combine/push_notices.cuh", "constexpr u32 NOTICES = 16;", "constexpr u32 NOTICES = 2;");
    // The same for dispatches with and without weights.
    change(
        "lowlatency/low_latency.cuh",
        "constexpr bool DELIVERS_WEIGHTS = EP4J_RANK_MAJOR || EP4J_WEIGHTED;",
        "constexpr bool DELIVERS_WEIGHTS = true;");
    // The same for blocks that share words, and for a mistake there.
    change(
        "lowlatency/low_latency_group_sizes.cuh",
        "constexpr u32 UNITS = 32;",
        "#define UNITS emulator::units");
    change(
        "lowlatency/low_latency_groups.cuh",
        "atomicAdd(progress, 1ull) + 1 == sharers",
        "(emulator::hasty || atomicAdd(progress, 1ull) + 1 == sharers)");
  }

  /** Replaces a text that a kernel contains exactly once. */
  void change(String file, String from, String to) {
    String text = Objects.requireNonNull(kernels.get(file), file);
    assertThat(text).containsOnlyOnce(from);
    kernels.put(file, text.replace(from, to));
  }

  /** A program: from the cache of an earlier build, or compiled. */
  private Path compile(String program) throws IOException, InterruptedException {
    Map<String, String> sources = sources(program + ".cpp");
    List<String> parts = new ArrayList<>(OPTIONS);
    parts.add(HostCompiler.version());
    sources.forEach((name, text) -> parts.addAll(List.of(name, text)));
    String key = BuildCache.key(parts);
    Path file = directory.resolve(program);
    synchronized (COMPILING.computeIfAbsent(key, _ -> new Object())) {
      Optional<byte[]> known = BuildCache.get(key);
      if (known.isPresent()) {
        HostCompiler.install(known.get(), file);
        return file;
      }
      for (var source : sources.entrySet()) {
        Path text = directory.resolve(source.getKey());
        Files.createDirectories(Objects.requireNonNull(text.getParent()));
        Files.writeString(text, source.getValue());
      }
      // Includes name files from the root of the kernels.
      List<String> options = new ArrayList<>(OPTIONS);
      options.add("-I" + directory);
      HostCompiler.compile(
          directory.resolve(program + ".cpp"), file, options.toArray(String[]::new));
      BuildCache.put(key, program, Files.readAllBytes(file));
    }
    return file;
  }

  /** The text of a file and of its includes, by name. */
  private Map<String, String> sources(String entry) throws IOException {
    Map<String, String> sources = new TreeMap<>();
    Deque<String> open = new ArrayDeque<>(List.of(entry));
    while (!open.isEmpty()) {
      String name = open.remove();
      if (sources.containsKey(name)) {
        continue;
      }
      String text = EMULATOR.contains(name) ? read(name) : kernel(name);
      sources.put(name, text);
      INCLUDE.matcher(text).results().forEach(include -> open.add(include.group(1)));
    }
    return sources;
  }

  /** Adds a file of the emulator, and the files of the emulator that it includes. */
  static void emulator(String entry, Map<String, String> sources) throws IOException {
    Deque<String> open = new ArrayDeque<>(List.of(entry));
    Set<String> read = new HashSet<>();
    while (!open.isEmpty()) {
      String name = open.remove();
      if (EMULATOR.contains(name) && read.add(name)) {
        String text = read(name);
        sources.put(name, text);
        INCLUDE.matcher(text).results().forEach(include -> open.add(include.group(1)));
      }
    }
  }

  private String kernel(String name) {
    return inPlaceOfShared(name, Objects.requireNonNull(kernels.get(name), name));
  }

  /**
   * Runs cases of a world from a seed on; kills the program and fails after the limit.
   *
   * @param nodeSizes ranks of each node; empty: each case draws them
   */
  Outcome run(String world, long seed, int cases, int... nodeSizes)
      throws IOException, InterruptedException {
    List<String> command = new ArrayList<>();
    command.add(compile(PROGRAMS.getOrDefault(world, world)).toString());
    command.add(Long.toUnsignedString(seed));
    command.add(String.valueOf(cases));
    if (PROGRAMS.containsKey(world)) {
      command.add(world);
    } else if (nodeSizes.length > 0) {
      command.add(FIRST_WORLD);
    }
    int ranks = 0;
    for (int size : nodeSizes) {
      command.add(String.valueOf(size));
      ranks += size;
    }
    // Every rank tells every other one, beside other programs of a busy machine.
    return HostCompiler.run(command, 120 + cases * Math.max(1, ranks) + ranks * ranks / 150);
  }

  /** Shared memory belongs to the emulated block: declarations become references to it. */
  static String inPlaceOfShared(String file, String text) {
    String dynamic =
        DYNAMIC
            .matcher(text)
            .replaceAll("${type}* ${name} = (${type}*)emulator::dynamic_shared();");
    String all =
        STATIC
            .matcher(dynamic)
            .replaceAll(
                "auto& ${name} ="
                    + " emulator::static_shared<${type}${sizes}>(\""
                    + file
                    + ": ${name}\");");
    for (String line : all.lines().toList()) {
      assertThat(line)
          .as("a declaration in %s that the emulator's test does not support", file)
          .doesNotContain("__shared__");
    }
    return all;
  }

  private static String read(String file) throws IOException {
    try (InputStream in = EmulatedKernels.class.getResourceAsStream(file)) {
      assertThat(in).as(file).isNotNull();
      return new String(in.readAllBytes(), StandardCharsets.UTF_8);
    }
  }
}
