package org.ep4j.moe;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.lang.reflect.Constructor;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.IntStream;
import org.ep4j.conformance.world.ProcessWorld;
import org.ep4j.conformance.world.RankJob;
import org.ep4j.group.Group;

/**
 * The passes of a case on one rank that is a process. Arguments: the class of the devices, a
 * directory for the results, then the words of the case.
 */
final class LayerJob implements RankJob {
  private static final Duration LIMIT = Duration.ofMinutes(5);

  /** Silence after which a process counts as dead. */
  private static final Duration SILENCE = Duration.ofSeconds(10);

  /** Heap of a process: the gradients of its experts. */
  private static final String HEAP = "1g";

  @Override
  public void run(Group group, List<String> arguments) throws Exception {
    Constructor<? extends TestDevice.Kind> kind =
        Class.forName(arguments.getFirst())
            .asSubclass(TestDevice.Kind.class)
            .getDeclaredConstructor();
    LayerCase of = LayerCase.of(arguments.subList(2, arguments.size()));
    LayerPasses.onDevice(group, of, kind.newInstance())
        .write(file(Path.of(arguments.get(1)), group.rank()));
  }

  /** Runs all ranks of a case as processes. */
  static List<LayerResults> run(
      LayerCase of, Class<? extends TestDevice.Kind> kind, Path directory) {
    Path results = directory.resolve(String.join("-", of.words()));
    try {
      Files.createDirectories(results);
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
    List<String> arguments = new ArrayList<>(List.of(kind.getName(), results.toString()));
    arguments.addAll(of.words());
    new ProcessWorld(LIMIT, SILENCE, HEAP).run(of.ranks(), LayerJob.class, arguments);
    return IntStream.range(0, of.ranks())
        .mapToObj(rank -> LayerResults.read(file(results, rank)))
        .toList();
  }

  private static Path file(Path directory, int rank) {
    return directory.resolve("rank" + rank + ".safetensors");
  }
}
