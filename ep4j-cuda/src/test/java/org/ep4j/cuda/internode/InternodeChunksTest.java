package org.ep4j.cuda.internode;

import static org.assertj.core.api.Assertions.assertThat;

import java.util.Random;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class InternodeChunksTest {
  private static final int LINE = 128;
  private static final int HEADER = 128;

  /** Unaligned data crosses the bus at half the speed. */
  @ParameterizedTest
  @ValueSource(longs = {1, 2, 3})
  void rowsAreAlignedAfterTheirMetadata(long seed) {
    Random random = new Random(seed);
    for (int i = 0; i < 500; i++) {
      int topK = 1 + random.nextInt(64);
      long scales = random.nextInt(600);
      long metadata = 16L * random.nextInt(100);
      String shape = "seed " + seed + ": top-" + topK + ", scales " + scales;
      assertThat(InternodeChunks.rowOffset(scales, topK, false))
          .as(shape)
          .isGreaterThanOrEqualTo(16 + 16L * topK + scales)
          .matches(offset -> offset % LINE == 0, "begins at a multiple of 128 bytes");
      assertThat(InternodeChunks.expertRowOffset(metadata, topK))
          .as(shape)
          .isGreaterThanOrEqualTo(16 + 12L * topK + metadata)
          .matches(offset -> offset % LINE == 0, "begins at a multiple of 128 bytes");
      assertThat(InternodeChunks.returnRecordBytes(16L * topK, topK, true))
          .as(shape)
          .isGreaterThanOrEqualTo(20L * topK)
          .matches(bytes -> bytes % LINE == 0, "the next begins at a multiple of 128 bytes");
    }
  }

  @ParameterizedTest
  @ValueSource(longs = {1, 2, 3})
  void theTokensOfAChunkFitIntoItsSlot(long seed) {
    Random random = new Random(seed);
    for (int i = 0; i < 500; i++) {
      long record = 32L + random.nextInt(60_000);
      long slot = HEADER + InternodeChunks.alignToLine(record) + random.nextInt(200_000);
      int tokens = InternodeChunks.tokens(record, slot);
      assertThat(tokens).as("seed %s, record %s, slot %s", seed, record, slot).isBetween(1, 32);
      assertThat(HEADER + tokens * InternodeChunks.alignToLine(record))
          .as("seed %s, record %s, slot %s", seed, record, slot)
          .isLessThanOrEqualTo(slot);
    }
  }

  /** All choices of a token may lie in one node. */
  @ParameterizedTest
  @ValueSource(longs = {132 << 10, 136 << 10, 1 << 20})
  void aSlotHasRoomForTheRowOfEachChoiceInTheOrderOfExperts(long slot) {
    for (int topK = 1; topK <= 64; topK++) {
      long row = InternodeChunks.expertReturnRowBytes(topK, slot);
      long record = InternodeChunks.expertReturnRecordBytes(row);
      assertThat(row).as("top-%s", topK).isPositive().matches(bytes -> bytes % 16 == 0, "vectors");
      assertThat(topK * record).as("top-%s", topK).isLessThanOrEqualTo(slot);
      assertThat(InternodeChunks.returnTokens(record, topK, slot)).isPositive();
    }
  }
}
