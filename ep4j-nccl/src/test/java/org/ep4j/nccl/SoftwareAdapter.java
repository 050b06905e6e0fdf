package org.ep4j.nccl;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.concurrent.TimeUnit;
import org.ep4j.conformance.world.ProcessWorld;
import org.ep4j.conformance.world.RankJob;
import org.ep4j.conformance.world.RankProcesses;
import org.ep4j.conformance.world.ThreadWorld;
import org.ep4j.conformance.world.World;
import org.ep4j.cuda.driver.calls.NativeEnvironment;
import org.ep4j.group.Group;

/**
 * A network adapter in software for NCCL's GIN, see {@code software_nic.cpp}, and its ranks:
 * threads of a separate process, whose NCCL loads the adapter.
 *
 * @param directory directory of the compiled adapter
 * @param variables variables of that process
 */
record SoftwareAdapter(Path directory, Map<String, String> variables) implements World {
  private static final String SOURCE = "software_nic.cpp";
  private static final String COMPILER = "g++";
  private static final int COMPILE_SECONDS = 120;

  /** The version whose plugin interface the adapter implements. */
  private static final int VERSION = 23007;

  private static final Duration LIMIT = Duration.ofMinutes(8);

  SoftwareAdapter(Path directory) {
    this(directory, Map.of());
  }

  /** The missing requirements of the adapter; empty if none. */
  static String lacking() {
    String gpus = Gpus.lacking(2);
    if (!gpus.isEmpty()) {
      return gpus;
    }
    int version = NcclLibrary.version();
    if (version != VERSION) {
      return "the adapter is for NCCL "
          + NcclBackendProvider.text(VERSION)
          + ", this machine has "
          + NcclBackendProvider.text(version);
    }
    boolean compiles =
        List.of(System.getenv().getOrDefault("PATH", "").split(":", -1)).stream()
            .anyMatch(place -> Files.isExecutable(Path.of(place, COMPILER)));
    return compiles ? "" : "no g++ to compile the network adapter";
  }

  @Override
  public String name() {
    return "threads of a process with an adapter in software";
  }

  @Override
  public boolean costly() {
    return true;
  }

  @Override
  public void run(int ranks, Class<? extends RankJob> job, List<String> arguments) {
    List<String> all =
        new ArrayList<>(List.of(compiled().toString(), String.valueOf(ranks), job.getName()));
    all.addAll(arguments);
    ProcessWorld world = new ProcessWorld(LIMIT, Duration.ofSeconds(10));
    try (RankProcesses process = world.start(1, OneProcess.class, all, rank -> variables)) {
      process.awaitSuccess(LIMIT);
    }
  }

  private Path compiled() {
    Path adapter = directory.resolve("libsoftware_nic.so");
    if (Files.exists(adapter)) {
      return adapter;
    }
    Path source = directory.resolve(SOURCE);
    try (InputStream in =
        Objects.requireNonNull(SoftwareAdapter.class.getResourceAsStream(SOURCE))) {
      Files.copy(in, source);
      compile(
          List.of(
              COMPILER,
              "-std=c++17",
              "-O1",
              "-Wall",
              "-Wextra",
              "-Werror",
              "-shared",
              "-fPIC",
              "-o",
              adapter.toString(),
              source.toString(),
              "-ldl"));
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
      throw new IllegalStateException(e);
    }
    return adapter;
  }

  private void compile(List<String> command) throws IOException, InterruptedException {
    Path output = directory.resolve("output.txt");
    Process process =
        new ProcessBuilder(command)
            .redirectErrorStream(true)
            .redirectOutput(output.toFile())
            .start();
    assertThat(process.waitFor(COMPILE_SECONDS, TimeUnit.SECONDS)).isTrue();
    assertThat(process.exitValue()).as(Files.readString(output)).isZero();
  }

  /** Arguments: the adapter, the number of ranks, the job of each rank, its arguments. */
  public static final class OneProcess implements RankJob {
    private static final int OWN = 3;

    /** Used by reflection. */
    public OneProcess() {}

    @Override
    public void run(Group group, List<String> arguments) {
      NativeEnvironment.setDefault("NCCL_RMA_PLUGIN", arguments.get(0));
      Class<? extends RankJob> job;
      try {
        job = Class.forName(arguments.get(2)).asSubclass(RankJob.class);
      } catch (ClassNotFoundException e) {
        throw new IllegalArgumentException(e);
      }
      new ThreadWorld(LIMIT)
          .run(Integer.parseInt(arguments.get(1)), job, arguments.subList(OWN, arguments.size()));
    }
  }
}
