package org.ep4j.cuda.driver;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Test;

class ResourceStackTest {
  @Test
  void allAreClosedInReverseOrderEvenIfSomeThrow() {
    List<String> closed = new ArrayList<>();
    ResourceStack stack = new ResourceStack();
    stack.own(() -> closed.add("first"));
    stack.own(
        () -> {
          closed.add("second");
          throw new IOException("no disk");
        });
    stack.own(
        () -> {
          closed.add("third");
          throw new IllegalArgumentException("no reason");
        });
    assertThatThrownBy(stack::close)
        .isInstanceOf(IllegalArgumentException.class)
        .satisfies(e -> assertThat(e.getSuppressed()[0]).hasRootCauseInstanceOf(IOException.class));
    assertThat(closed).containsExactly("third", "second", "first");
    stack.close();
    assertThat(closed).hasSize(3);
  }
}
