package org.ep4j.nccl;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.IOException;
import java.io.InputStream;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Objects;
import java.util.stream.LongStream;
import org.ep4j.conformance.world.HostCompiler;
import org.ep4j.conformance.world.HostCompiler.Outcome;
import org.ep4j.nccl.gin.GinTable;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/**
 * The shim, compiled for the host with headers that record what it calls: which communicator and
 * context each lane has in a table of {@link GinTable}.
 */
class GinShimTest {
  private static final int COMMUNICATORS = 3;
  private static final int CONTEXTS = 4;

  /** Some lanes share contexts. */
  private static final int LANES = 2 * COMMUNICATORS * CONTEXTS + 1;

  @TempDir private Path directory;

  @Test
  void lanesAreContextsOfOneCommunicatorBehindTheOther() throws IOException, InterruptedException {
    List<String> expected = new ArrayList<>();
    for (int lane = 0; lane < LANES; lane++) {
      int communicator = lane / CONTEXTS % COMMUNICATORS;
      String place = "communicator " + communicator + " context " + lane % CONTEXTS;
      expected.add("put " + place + " window " + window(communicator) + " to 5");
      expected.add("signal " + place + " to 5");
      expected.add("flush " + place);
    }
    // Each context of each communicator counts 1, 10 or 100.
    expected.add("signals " + CONTEXTS * 111);
    assertThat(run()).containsExactlyElementsOf(expected);
  }

  private static long window(int communicator) {
    return 0x7000L + communicator;
  }

  private List<String> run() throws IOException, InterruptedException {
    HostCompiler.require("to compile the shim for the host");
    copy("device_put.cu");
    copy("gin_shim/nccl_device.h");
    copy("gin_shim/main.cpp");
    List<String> options =
        new ArrayList<>(List.of("-std=c++17", "-I" + directory, "-DEP4J_NCCL_VERSION=22809"));
    GinTable.DEFINES.forEach((name, value) -> options.add("-D" + name + "=" + value));
    Path program = directory.resolve("program");
    HostCompiler.compile(directory.resolve("main.cpp"), program, options.toArray(String[]::new));
    List<String> command = new ArrayList<>(List.of(program.toString(), String.valueOf(LANES)));
    LongStream.of(table().toArray(ValueLayout.JAVA_LONG))
        .mapToObj(Long::toString)
        .forEach(command::add);
    Outcome outcome = HostCompiler.run(command, 30);
    assertThat(outcome.status()).as(outcome.output()).isZero();
    return outcome.output().lines().toList();
  }

  /** The program puts the addresses of its communicators in the place of their numbers. */
  private static MemorySegment table() {
    List<GinTable.Entry> entries = new ArrayList<>();
    for (int i = 0; i < COMMUNICATORS; i++) {
      entries.add(new GinTable.Entry(i, window(i)));
    }
    return GinTable.of(CONTEXTS, entries);
  }

  private void copy(String resource) throws IOException {
    Path target = directory.resolve(Path.of(resource).getFileName());
    try (InputStream in = Objects.requireNonNull(GinShimTest.class.getResourceAsStream(resource))) {
      Files.copy(in, target);
    }
  }
}
