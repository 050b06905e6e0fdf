package org.ep4j.cuda.engine;

import static org.assertj.core.api.Assertions.assertThat;

import java.util.Random;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class FarChunksTest {
  private static final int LINE = 128;
  private static final int HEADER = 128;

  /** What begins elsewhere crosses the bus at half the speed. */
  @ParameterizedTest
  @ValueSource(longs = {1, 2, 3})
  void rowsBeginAtLinesBehindAllThatStandsInFrontOfThem(long seed) {
    Random random = new Random(seed);
    for (int i = 0; i < 500; i++) {
      int topK = 1 + random.nextInt(64);
      long scales = random.nextInt(600);
      long companion = 16L * random.nextInt(100);
      String shape = "seed " + seed + ": top-" + topK + ", scales " + scales;
      assertThat(FarChunks.rowOffset(scales, topK, false))
          .as(shape)
          .isGreaterThanOrEqualTo(16 + 16L * topK + scales)
          .matches(offset -> offset % LINE == 0, "begins at a line");
      assertThat(FarChunks.expertRowOffset(companion, topK))
          .as(shape)
          .isGreaterThanOrEqualTo(16 + 12L * topK + companion)
          .matches(offset -> offset % LINE == 0, "begins at a line");
      assertThat(FarChunks.answerBytes(16L * topK, topK, true))
          .as(shape)
          .isGreaterThanOrEqualTo(20L * topK)
          .matches(bytes -> bytes % LINE == 0, "the next begins at a line");
    }
  }

  @ParameterizedTest
  @ValueSource(longs = {1, 2, 3})
  void theTokensOfAChunkFitIntoItsSlot(long seed) {
    Random random = new Random(seed);
    for (int i = 0; i < 500; i++) {
      long record = 32L + random.nextInt(60_000);
      long slot = HEADER + FarChunks.lines(record) + random.nextInt(200_000);
      int tokens = FarChunks.tokens(record, slot);
      assertThat(tokens).as("seed %s, record %s, slot %s", seed, record, slot).isBetween(1, 32);
      assertThat(HEADER + tokens * FarChunks.lines(record))
          .as("seed %s, record %s, slot %s", seed, record, slot)
          .isLessThanOrEqualTo(slot);
    }
  }
}
