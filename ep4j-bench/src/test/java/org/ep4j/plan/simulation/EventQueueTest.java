package org.ep4j.plan.simulation;

import static org.assertj.core.api.Assertions.assertThat;

import java.util.BitSet;
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
        boolean polled = queue.poll();
        if (polled == expected.isEmpty()) {
          assertThat(polled).as("seed %d, step %d", seed, step).isEqualTo(!expected.isEmpty());
        }
        if (polled) {
          now = queue.time();
          double due = expected.remove();
          if (now != due || queue.event() != Double.doubleToRawLongBits(now)) {
            assertThat(now).as("seed %d, step %d", seed, step).isEqualTo(due);
            assertThat(queue.event()).isEqualTo(Double.doubleToRawLongBits(now));
          }
        }
      }
      long rest = expected.size();
      assertThat(queue.count()).isEqualTo(added - rest);
    }
  }

  @Test
  void manyEqualTimesAllCome() {
    EventQueue queue = new EventQueue();
    for (int event = 0; event < 10_000; event++) {
      queue.add(5, event);
    }
    BitSet found = new BitSet();
    while (queue.poll()) {
      found.set((int) queue.event());
    }
    assertThat(found.cardinality()).isEqualTo(10_000);
    assertThat(queue.count()).isEqualTo(10_000);
    assertThat(queue.time()).isEqualTo(5);
  }
}
