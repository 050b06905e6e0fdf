package org.ep4j.c;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import org.ep4j.c.struct.Struct;
import org.ep4j.c.struct.Tensors;
import org.ep4j.error.ErrorCode;
import org.ep4j.error.InvalidArgumentException;
import org.ep4j.memory.NativeMemory;
import org.ep4j.routing.Routing;
import org.ep4j.tensor.DType;
import org.ep4j.tensor.Tensor;
import org.jspecify.annotations.Nullable;

/** Copies of tensors, and routings as dense matrices. */
final class TensorFunctions {
  private TensorFunctions() {}

  static int tensorRead(long tensor, long target) {
    Tensor source = given("tensor", tensor);
    source.copyTo(memory("target", target, source));
    return 0;
  }

  static int tensorWrite(long tensor, long source) {
    Tensor target = given("tensor", tensor);
    target.copyFrom(memory("source", source, target));
    return 0;
  }

  static int routingFromDense(long map, long probs, long topkIdx, long topkWeights) {
    Tensor ids = given("topk_idx", topkIdx);
    Tensor weights = optional("topk_weights", topkWeights);
    Tensor from = given("map", map);
    if ((weights == null) != (optional("probs", probs) == null)) {
      throw new InvalidArgumentException(
          ErrorCode.NATIVE_STRUCTURE,
          "topk_weights",
          weights == null ? "NULL" : "a tensor",
          "NULL if and only if probs is",
          "pass both or neither");
    }
    requireMatrix("topk_idx", ids, DType.INT64, from.size(0));
    Routing routing = Routing.ofDense(from, optional("probs", probs), Math.toIntExact(ids.size(1)));
    ids.copyFrom(routing.topkIdx().segment());
    Tensor values = routing.topkWeights();
    if (weights != null && values != null) {
      requireLike("topk_weights", weights, values);
      weights.copyFrom(values.segment());
    }
    return 0;
  }

  static int routingToDense(long topkIdx, long topkWeights, long probs) {
    Tensor dense = given("probs", probs);
    Routing routing = Routing.of(given("topk_idx", topkIdx), given("topk_weights", topkWeights));
    requireMatrix("probs", dense, DType.FP32, routing.tokens());
    Tensor values;
    try (Arena arena = Arena.ofConfined()) {
      values =
          Routing.of(
                  routing.topkIdx().onHost(arena), given("topk_weights", topkWeights).onHost(arena))
              .denseWeights(Math.toIntExact(dense.size(1)));
    }
    dense.copyFrom(values.segment());
    return 0;
  }

  private static Tensor given(String argument, long address) {
    Struct.requirePointer(argument, address);
    return Tensors.require(argument, address);
  }

  private static @Nullable Tensor optional(String argument, long address) {
    return address == 0 ? null : Tensors.read(argument, address);
  }

  private static void requireLike(String argument, Tensor tensor, Tensor like) {
    requireMatrix(argument, tensor, like.dtype(), like.size(0));
    if (tensor.size(1) != like.size(1)) {
      throw wrong(argument, tensor, like.toString());
    }
  }

  private static void requireMatrix(String argument, Tensor tensor, DType dtype, long rows) {
    if (tensor.dtype() != dtype || tensor.dimensions() != 2 || tensor.size(0) != rows) {
      throw wrong(argument, tensor, dtype + "[" + rows + ", columns]");
    }
  }

  private static InvalidArgumentException wrong(String argument, Tensor tensor, String limit) {
    return new InvalidArgumentException(
        ErrorCode.ROUTING_SHAPE,
        argument,
        tensor.toString(),
        limit,
        "pass memory for the result in this shape");
  }

  private static MemorySegment memory(String argument, long address, Tensor tensor) {
    if (tensor.byteSize() > 0) {
      Struct.requirePointer(argument, address);
    }
    return NativeMemory.view(address, tensor.byteSize());
  }
}
