package org.ep4j.cuda.engine;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Locale;
import org.ep4j.config.BufferConfig;
import org.ep4j.config.HighThroughputConfig;
import org.ep4j.config.Layout;
import org.ep4j.routing.ExpertPlacement;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** The table of memory in {@code docs/configuration.md} has the figures of the engine. */
class MemoryTableTest {
  private static final Path DOCUMENT = Path.of("../docs/configuration.md");
  private static final int BOUND = 65_536;

  @ParameterizedTest
  @ValueSource(ints = {8, 16, 64, 256})
  void theDocumentHasTheSizesOfTheEngine(int ranks) throws IOException {
    String row =
        String.format(
            Locale.ROOT,
            "| %d | %s | %s | %s | %s | %s | %s | %s |",
            ranks,
            gibibytes(ranks, limits()),
            gibibytes(ranks, limits().combineInPlace(true)),
            gibibytes(ranks, limits().combineInPlace(true).maxReceiveRows(BOUND)),
            gibibytes(ranks, limits().layouts(Layout.EXPERT_MAJOR)),
            gibibytes(ranks, limits().layouts(Layout.EXPERT_MAJOR).maxReceiveRows(BOUND)),
            gibibytes(ranks, limits().layouts(Layout.EXPERT_MAJOR).combineInPlace(true)),
            gibibytes(
                ranks,
                limits().layouts(Layout.EXPERT_MAJOR).combineInPlace(true).maxReceiveRows(BOUND)));
    assertThat(Files.readString(DOCUMENT)).contains(row);
  }

  private static HighThroughputConfig.Builder limits() {
    return HighThroughputConfig.builder().maxTokens(4096);
  }

  private static String gibibytes(int ranks, HighThroughputConfig.Builder limits) {
    BufferConfig config =
        BufferConfig.builder()
            .hidden(7168)
            .topK(8)
            .placement(ExpertPlacement.blocks(256, ranks))
            .highThroughput(limits.build())
            .build();
    long bytes = new CudaEngineProvider().sizes(config).symmetricBytes();
    return String.format(Locale.ROOT, "%.2f", (double) bytes / (1 << 30));
  }
}
