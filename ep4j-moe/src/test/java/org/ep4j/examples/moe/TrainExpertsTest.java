package org.ep4j.examples.moe;

import static org.assertj.core.api.Assertions.assertThat;

import java.util.List;
import org.ep4j.group.ThreadRanks;
import org.junit.jupiter.api.Test;

class TrainExpertsTest {
  private static final int STEPS = 25;

  @Test
  void lossesFallAndHaveTheSameBitsOnAnyNumberOfRanks() {
    List<Double> ofOne = losses(1);
    assertThat(ofOne.getLast()).isLessThan(ofOne.getFirst() / 3);
    for (int ranks : List.of(2, 3, 4)) {
      assertThat(losses(ranks)).as("%d ranks", ranks).isEqualTo(ofOne);
    }
  }

  private static List<Double> losses(int ranks) {
    List<List<Double>> ofRanks = ThreadRanks.call(ranks, group -> TrainExperts.train(group, STEPS));
    assertThat(ofRanks).allMatch(ofRanks.getFirst()::equals);
    return ofRanks.getFirst();
  }
}
