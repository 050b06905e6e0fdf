package org.ep4j.cuda.engine.throughput;

import static org.assertj.core.api.Assertions.assertThat;

import java.util.List;
import java.util.Objects;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.ep4j.cuda.engine.launch.Kernels;
import org.ep4j.cuda.engine.throughput.RingStages.Kind;
import org.ep4j.cuda.jit.KernelSources;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

class RingStagesTest {
  private static final int LINE = 128;
  private static final int PIPELINES = constant("combine/row_ring.cuh", "PIPELINES");

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
    RingStages pull = RingStages.of(Kind.PULL, sharedBytes, ranks, rowBytes);
    RingStages experts = RingStages.of(Kind.EXPERTS, sharedBytes, ranks, rowBytes);

    assertThat(pull.tableBytes()).isGreaterThanOrEqualTo(ranks * 2 * Long.BYTES);
    assertThat(experts.tableBytes()).isGreaterThanOrEqualTo(ranks * 5 * Integer.BYTES);
    for (RingStages stages : List.of(pull, experts)) {
      assertThat(stages.bytes()).isLessThanOrEqualTo(sharedBytes);
      assertThat(stages.slots()).as("one row is added while the next arrives").isGreaterThan(1);
      assertThat(stages.tableBytes() % LINE).isZero();
      assertThat((stages.bytes() - stages.tableBytes()) % (PIPELINES * LINE)).isZero();
    }
  }

  @ParameterizedTest
  @CsvSource({"16", "14336", "16384", "17936", "28672", "57344"})
  void aSlotHoldsWhatTheThreadsOfAPipelineAdd(long rowBytes) {
    int vectors = constant("combine/pull_rows.cuh", "PULL_VECTORS");
    assertPieces(RingStages.of(Kind.PULL, 231_424, 2, rowBytes), rowBytes, vectors, 16);
    vectors = constant("combine/expert_jobs.cuh", "SUM_VECTORS");
    assertPieces(RingStages.of(Kind.EXPERTS, 231_424, 2, rowBytes), rowBytes, vectors, 32);
  }

  private static void assertPieces(RingStages stages, long rowBytes, int vectors, int unit) {
    int threads = Kernels.THREADS / PIPELINES - 32;
    assertThat(stages.slotBytes()).isLessThanOrEqualTo(vectors * threads * 16);
    assertThat(stages.slotBytes() % unit).isZero();
    long pieces = Math.ceilDiv(rowBytes, stages.slotBytes());
    assertThat(pieces * stages.slotBytes() - rowBytes).as("equal pieces").isLessThan(unit * pieces);
  }

  /** As {@code RowRing::bytes}. */
  @Test
  void theRingsAreAsLongAsTheKernelTakesThem() {
    assertRings(RingStages.of(Kind.PULL, 231_424, 2, 14_336), 16);
    assertRings(RingStages.of(Kind.EXPERTS, 231_424, 2, 14_336), 24);
  }

  private static void assertRings(RingStages stages, int jobBytes) {
    int biases = constant("combine/row_ring.cuh", "MAX_BIASES");
    int lists = (64 + biases) * (Long.BYTES + Float.BYTES);
    int ring = stages.slots() * (stages.slotBytes() + 2 * Long.BYTES + jobBytes) + lists;
    int lines = Math.ceilDiv(ring, LINE);
    assertThat(stages.bytes()).isEqualTo(stages.tableBytes() + PIPELINES * lines * LINE);
  }

  private static int constant(String file, String name) {
    String entry =
        file.endsWith("expert_jobs.cuh") ? "combine/expert_combine.cu" : "combine/combine.cu";
    String text = Objects.requireNonNull(KernelSources.of(entry).files().get(file), file);
    Matcher found = Pattern.compile("constexpr u32 " + name + " = (\\d+);").matcher(text);
    assertThat(found.find()).as(name).isTrue();
    return Integer.parseInt(found.group(1));
  }
}
