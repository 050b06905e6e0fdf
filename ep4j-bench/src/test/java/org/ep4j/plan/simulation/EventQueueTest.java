package org.ep4j.plan.simulation;

import static org.assertj.core.api.Assertions.assertThat;

import java.util.ArrayList;
import java.util.List;
import java.util.PriorityQueue;
import java.util.Random;
import org.junit.jupiter.api.Test;

class EventQueueTest {
  @Test
  void eventsComeInTheOrderOfTheirTimes() {
    for (int seed = 0; seed < 40; seed++) {
      Random random = new Random(seed);
      double spread = Math.pow(10, random.nextInt(12) - 6);
      EventQueue queue = new EventQueue();
      PriorityQueue<Double> expected = new PriorityQueue<>();
      long added = 0;
      double now = 0;
      for (int step = 0; step < 20_000; step++) {
        int adds = step < 15_000 ? random.nextInt(3) : 0;
        for (int i = 0; i < adds; i++) {
          // Some equal to the present, some at the same later time, some far behind all others.
          double at =
              switch (random.nextInt(8)) {
                case 0 -> now;
                case 1 -> Math.ceil(now / spread) * spread;
                case 2 -> now + 1e6 * spread * random.nextDouble();
                default -> now + spread * random.nextDouble();
              };
          queue.add(at, Double.doubleToRawLongBits(at));
          expected.add(at);
          added++;
        }
        assertThat(queue.poll()).isEqualTo(!expected.isEmpty());
        if (!expected.isEmpty()) {
          now = queue.time();
          assertThat(now).as("seed %d, step %d", seed, step).isEqualTo(expected.poll());
          assertThat(queue.event()).isEqualTo(Double.doubleToRawLongBits(now));
        }
      }
      long rest = expected.size();
      assertThat(queue.count()).isEqualTo(added - rest);
    }
  }

  @Test
  void manyEqualTimesAllCome() {
    EventQueue queue = new EventQueue();
    List<Long> expected = new ArrayList<>();
    for (long event = 0; event < 10_000; event++) {
      queue.add(5, event);
      expected.add(event);
    }
    List<Long> found = new ArrayList<>();
    while (queue.poll()) {
      assertThat(queue.time()).isEqualTo(5);
      found.add(queue.event());
    }
    assertThat(found).containsExactlyInAnyOrderElementsOf(expected);
  }
}
