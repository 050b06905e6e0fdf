package org.ep4j.memory;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import org.junit.jupiter.api.Test;

class ClosingStepsTest {
  @Test
  void aStepThatThrowsSkipsNoneBehindIt() {
    List<String> done = new ArrayList<>();
    Error second = new OutOfMemoryError("second");
    assertThatThrownBy(
            () ->
                ClosingSteps.run(
                    () -> done.add("first"),
                    () -> {
                      throw second;
                    },
                    null,
                    () -> done.add("third"),
                    () -> {
                      throw new IllegalStateException("fourth");
                    }))
        .isSameAs(second)
        .satisfies(e -> assertThat(e.getSuppressed()).hasSize(1));
    assertThat(done).containsExactly("first", "third");
  }

  @Test
  void eachResourceIsAStep() {
    List<String> closed = new ArrayList<>();
    assertThatThrownBy(
            () ->
                ClosingSteps.each(
                    Arrays.asList("a", null, "b", "c"),
                    name -> {
                      closed.add(name);
                      if (!name.equals("c")) {
                        throw new IllegalStateException(name);
                      }
                    }))
        .hasMessage("a")
        .satisfies(e -> assertThat(e.getSuppressed()[0]).hasMessage("b"));
    assertThat(closed).containsExactly("a", "b", "c");
  }

  @Test
  void memoryThatCannotBeUnmappedNamesTheErrorOfTheSystem() {
    assertThatThrownBy(() -> Libc.unmap(1, 4096))
        .isInstanceOf(IllegalStateException.class)
        .hasMessageContaining("EINVAL");
  }
}
