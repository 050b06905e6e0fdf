package org.ep4j.engine.host.buffer;

import static org.assertj.core.api.Assertions.assertThat;

import java.util.stream.Stream;
import org.ep4j.BufferSizes;
import org.ep4j.BufferSizes.Part;
import org.ep4j.BufferStatistics;
import org.ep4j.ExpertBuffer;
import org.ep4j.config.BufferConfig;
import org.ep4j.group.ThreadRanks;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** {@code ExpertBuffer.sizes} against the memory of an open buffer, which statistics report. */
class HostSizesTest {
  @ParameterizedTest
  @CsvSource({
    "high throughput, 2, 2, auto",
    "low latency, 2, 2, auto",
    "both, 2, 2, auto",
    "high throughput, 2, 1, tcp",
    "low latency, 2, 1, tcp",
    "both, 4, 2, tcp",
    "both, 2, 1, inproc",
  })
  void anOpenBufferHasTheMemoryThatSizesNames(
      String kinds, int ranks, int ranksPerNode, String wire) {
    BufferConfig.Builder builder =
        BufferConfig.builder()
            .engine("host")
            .hidden(128)
            .topK(2)
            .experts(4)
            .ranksPerNode(ranksPerNode)
            .wire(wire);
    if (!kinds.equals("low latency")) {
      builder.highThroughput(64);
    }
    if (!kinds.equals("high throughput")) {
      builder.lowLatency(8);
    }
    BufferConfig config = builder.build();
    BufferSizes sizes = ExpertBuffer.sizes(config, ranks);
    Stream<String> names = sizes.parts().stream().map(Part::name);
    assertThat(names.anyMatch(name -> name.startsWith("between nodes")))
        .isEqualTo(ranks > ranksPerNode);
    ThreadRanks.run(
        ranks,
        group -> {
          try (ExpertBuffer buffer = ExpertBuffer.open(group, config)) {
            BufferStatistics statistics = buffer.statistics();
            assertThat(statistics.symmetricBytes()).isEqualTo(sizes.symmetricBytes());
            assertThat(statistics.privateBytes()).isEqualTo(sizes.privateBytes());
            assertThat(ExpertBuffer.sizes(buffer.config(), ranks)).isEqualTo(sizes);
          }
        });
  }
}
