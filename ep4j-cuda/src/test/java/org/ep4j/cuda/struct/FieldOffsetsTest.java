package org.ep4j.cuda.struct;

import static org.assertj.core.api.Assertions.assertThat;

import java.util.List;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;

class FieldOffsetsTest {
  /** As ranks of a test do, which read parameters of launches while other ranks read theirs. */
  @Test
  void threadsAskTheSameStructureAtTheSameTime() {
    Struct shared = new DispatchParameters();
    List<String> names = List.of("peers", "rank", "host_abort", "receipt.ticket");
    List<Long> alone =
        names.stream().map(name -> FieldOffsets.of(new DispatchParameters(), name)).toList();
    assertThat(alone).doesNotHaveDuplicates();

    List<Integer> wrong =
        IntStream.range(0, 40_000)
            .parallel()
            .filter(
                i ->
                    FieldOffsets.of(shared, names.get(i % names.size()))
                        != alone.get(i % names.size()))
            .boxed()
            .toList();

    assertThat(wrong).isEmpty();
  }
}
