package org.ep4j.conformance.world;

import java.util.List;
import java.util.stream.Stream;
import org.ep4j.config.BufferConfig;

/**
 * Which ranks of a job share memory: the last two arguments of the job.
 *
 * @param ranksPerNode as in {@link BufferConfig#ranksPerNode()}; 0 = all of them
 * @param wire as in {@link BufferConfig#wire()}
 */
public record NodeArguments(int ranksPerNode, String wire) {
  private static final int COUNT = 2;

  public static NodeArguments of(List<String> arguments) {
    int first = arguments.size() - COUNT;
    return new NodeArguments(Integer.parseInt(arguments.get(first)), arguments.get(first + 1));
  }

  public List<String> behind(List<String> arguments) {
    return Stream.concat(arguments.stream(), Stream.of(String.valueOf(ranksPerNode), wire))
        .toList();
  }

  /** Whether {@code rank} of {@code ranks} ranks is the only one of its node. */
  public boolean isAlone(int rank, int ranks) {
    int each = ranksPerNode == 0 ? ranks : ranksPerNode;
    int first = rank / each * each;
    return Math.min(each, ranks - first) == 1;
  }

  public BufferConfig.Builder apply(BufferConfig.Builder config) {
    return config.ranksPerNode(ranksPerNode).wire(wire);
  }
}
