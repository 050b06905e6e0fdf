package org.ep4j.c.struct;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.List;
import org.ep4j.CombineOptions;
import org.ep4j.error.InvalidArgumentException;
import org.ep4j.execution.Event;
import org.ep4j.tensor.DType;
import org.ep4j.tensor.Tensor;
import org.junit.jupiter.api.Test;

/** Arguments become objects once for equal bytes, so a warm loop allocates nothing. */
class RequestTest {
  private static final String HANDLE = "handle";

  @Test
  void equalArgumentsAreTheSameObjects() {
    try (Arena arena = Arena.ofConfined()) {
      CombineRequest request = new CombineRequest(arena);
      MemorySegment args = args(arena);
      request.take(args.address());
      Tensor y = request.y();
      CombineOptions options = request.options();
      // Each dispatch has a handle of its own.
      args.set(ValueLayout.JAVA_LONG, offset(HANDLE), 2);
      request.take(args.address());
      assertThat(request.y()).isSameAs(y);
      assertThat(request.options()).isSameAs(options);
      assertThat(request.handle()).isEqualTo(2);
    }
  }

  @Test
  void changedArgumentsAreReadAgain() {
    try (Arena arena = Arena.ofConfined()) {
      CombineRequest request = new CombineRequest(arena);
      MemorySegment args = args(arena);
      request.take(args.address());
      MemorySegment other = arena.allocate(64);
      args.set(ValueLayout.JAVA_LONG, offset("y"), other.address());
      request.take(args.address());
      assertThat(request.y().address()).isEqualTo(other.address());
    }
  }

  /** Bytes alone do not tell whether the event that they name is still open. */
  @Test
  void aClosedEventIsRefusedInEqualArguments() {
    try (Arena arena = Arena.ofConfined()) {
      CombineRequest request = new CombineRequest(arena);
      MemorySegment args = args(arena);
      long event = ObjectTable.PROCESS.add(Event.completed(), ObjectTable.NO_OWNER);
      args.set(ValueLayout.JAVA_LONG, offset("execution") + Long.BYTES, event);
      request.take(args.address());
      ObjectTable.PROCESS.remove(event);
      assertThatThrownBy(() -> request.take(args.address()))
          .hasMessageStartingWith("EP4J-1040: args->execution.previous = " + event);
    }
  }

  /** A part that was ignored would look as if it counted. */
  @Test
  void aDispatchWithAHandleHasNoPartOfARouting() {
    Struct struct = DispatchRequest.ARGS;
    try (Arena arena = Arena.ofConfined()) {
      for (String part : List.of("topk_idx", "topk_weights", "logical_idx")) {
        MemorySegment args = arena.allocate(struct.size(), 8);
        args.set(ValueLayout.JAVA_LONG, Struct.SIZE, struct.size());
        args.set(ValueLayout.JAVA_LONG, offset(struct, HANDLE), 1);
        Tensors.write(
            args.address() + offset(struct, "x"), Tensor.allocate(arena, DType.BF16, 2, 16));
        DType type = part.equals("topk_weights") ? DType.FP32 : DType.INT64;
        Tensors.write(args.address() + offset(struct, part), Tensor.allocate(arena, type, 2, 2));
        var request = new DispatchRequest(arena);
        request.take(args.address());
        assertThatThrownBy(request::requireNoRouting)
            .isInstanceOf(InvalidArgumentException.class)
            .hasMessageContaining("args->" + part);
      }
    }
  }

  private static MemorySegment args(Arena arena) {
    MemorySegment args = arena.allocate(CombineRequest.ARGS.size(), 8);
    args.set(ValueLayout.JAVA_LONG, Struct.SIZE, CombineRequest.ARGS.size());
    args.set(ValueLayout.JAVA_LONG, offset(HANDLE), 1);
    Tensors.write(args.address() + offset("y"), Tensor.allocate(arena, DType.BF16, 2, 16));
    return args;
  }

  private static long offset(String name) {
    return offset(CombineRequest.ARGS, name);
  }

  private static long offset(Struct struct, String name) {
    return struct.fields().stream()
        .filter(field -> field.name().equals(name))
        .findFirst()
        .orElseThrow()
        .offset();
  }
}
