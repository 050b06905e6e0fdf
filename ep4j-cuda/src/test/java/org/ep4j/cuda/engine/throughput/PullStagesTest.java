package org.ep4j.cuda.engine.throughput;

import static org.assertj.core.api.Assertions.assertThat;

import java.util.Objects;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.ep4j.cuda.engine.launch.Kernels;
import org.ep4j.cuda.jit.KernelSources;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

class PullStagesTest {
  private static final int LINE = 128;

  /** Shared memory of H100 and of a GPU with less; ranks of a host and of a rack. */
  @ParameterizedTest
  @CsvSource({
    "231424, 2, 14336",
    "231424, 8, 16384",
    "231424, 72, 28672",
    "231424, 1, 16",
    "101376, 4, 14336"
  })
  void ringsFitAndBeginAtLines(int sharedBytes, int ranks, long rowBytes) {
    PullStages stages = PullStages.of(sharedBytes, ranks, rowBytes);

    assertThat(stages.bytes()).isLessThanOrEqualTo(sharedBytes);
    assertThat(stages.slots()).as("one row is added while the next arrives").isGreaterThan(1);
    assertThat(stages.tableBytes() % LINE).isZero();
    assertThat(stages.tableBytes()).isGreaterThanOrEqualTo(ranks * 2 * Long.BYTES);
    assertThat((stages.bytes() - stages.tableBytes()) % (constant("PIPELINES") * LINE)).isZero();
  }

  @ParameterizedTest
  @CsvSource({"16", "14336", "16384", "17936", "28672", "57344"})
  void aSlotHoldsWhatTheThreadsOfAPipelineAdd(long rowBytes) {
    PullStages stages = PullStages.of(231_424, 2, rowBytes);
    int threads = Kernels.THREADS / constant("PIPELINES") - 32;

    assertThat(stages.slotBytes()).isLessThanOrEqualTo(constant("PULL_VECTORS") * threads * 16);
    assertThat(stages.slotBytes() % 16).isZero();
    long pieces = Math.ceilDiv(rowBytes, stages.slotBytes());
    assertThat(pieces * stages.slotBytes() - rowBytes).as("equal pieces").isLessThan(16 * pieces);
  }

  /** As {@code PullRing::bytes}. */
  @Test
  void theRingsAreAsLongAsTheKernelTakesThem() {
    PullStages stages = PullStages.of(231_424, 2, 14_336);
    int ring =
        stages.slots() * (stages.slotBytes() + 32) + (64 + constant("MAX_BIASES")) * Long.BYTES;
    int lines = Math.ceilDiv(ring, LINE);
    assertThat(stages.bytes())
        .isEqualTo(stages.tableBytes() + constant("PIPELINES") * lines * LINE);
  }

  private static int constant(String name) {
    String file = "combine/pull_rows.cuh";
    String text =
        Objects.requireNonNull(KernelSources.of("combine/combine.cu").files().get(file), file);
    Matcher found = Pattern.compile("constexpr u32 " + name + " = (\\d+);").matcher(text);
    assertThat(found.find()).as(name).isTrue();
    return Integer.parseInt(found.group(1));
  }
}
