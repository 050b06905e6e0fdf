package org.ep4j.cuda.jit;

import static org.assertj.core.api.Assertions.assertThat;

import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.Test;

class SharedResultsTest {
  @Test
  void aResultIsMadeOnceAndNoMoreThanTheLimitAreKept() {
    SharedResults<String, byte[]> results = new SharedResults<>(3);
    AtomicInteger made = new AtomicInteger();
    for (int kernel = 0; kernel < 20; kernel++) {
      for (int rank = 0; rank < 2; rank++) {
        byte content = (byte) kernel;
        byte[] image =
            results.get(
                "kernel " + kernel,
                () -> {
                  made.incrementAndGet();
                  return new byte[] {content};
                });
        assertThat(image).containsExactly(content);
        assertThat(results.size()).isLessThanOrEqualTo(3);
      }
    }
    assertThat(made.get()).isEqualTo(20);
  }
}
