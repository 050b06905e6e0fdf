package org.ep4j.engine;

import org.ep4j.config.BufferConfig;
import org.ep4j.error.ErrorCode;
import org.ep4j.error.IllegalUseException;
import org.ep4j.error.InvalidArgumentException;
import org.ep4j.execution.DeviceStream;
import org.ep4j.routing.Routing;
import org.ep4j.tensor.DType;
import org.ep4j.tensor.Tensor;
import org.jspecify.annotations.Nullable;

/**
 * Argument checks that are the same for every engine and for both kinds of operations. Each failure
 * names the argument, its value, the limit and the remedy. Passing checks allocate nothing. The
 * pass that reads the ids of a routing checks them.
 */
public final class Arguments {
  private Arguments() {}

  /** An error about argument {@code name}. */
  public static InvalidArgumentException invalid(
      ErrorCode code, String name, Object value, String limit, String remedy) {
    return new InvalidArgumentException(code, name, String.valueOf(value), limit, remedy);
  }

  /** Requires a rank of the group. */
  public static void rank(int rank, int ranks) {
    if (rank < 0 || rank >= ranks) {
      throw invalid(
          ErrorCode.NO_SUCH_RANK, "rank", rank, "0.." + (ranks - 1), "name a rank of the group");
    }
  }

  /** Requires two dimensions of the given type. */
  public static void shape(String name, Tensor tensor, DType dtype, long rows, long columns) {
    if (tensor.dtype() != dtype
        || tensor.dimensions() != 2
        || tensor.size(0) != rows
        || tensor.size(1) != columns) {
      throw invalid(
          ErrorCode.WRONG_TENSOR,
          name,
          tensor,
          dtype + "[" + rows + ", " + columns + "]",
          "pass a tensor of that shape");
    }
  }

  /** Requires one dimension of the given type. */
  public static void shape(String name, Tensor tensor, DType dtype, long elements) {
    if (tensor.dtype() != dtype || tensor.dimensions() != 1 || tensor.size(0) != elements) {
      throw invalid(
          ErrorCode.WRONG_TENSOR,
          name,
          tensor,
          dtype + "[" + elements + "]",
          "pass a tensor of that shape");
    }
  }

  /** Requires host memory that has not been closed. */
  public static void onHost(String name, Tensor tensor) {
    if (tensor.onDevice()) {
      throw invalid(
          ErrorCode.TENSOR_NOT_ON_HOST,
          name,
          tensor,
          "in host memory for the host engine",
          "copy it to the host");
    }
    if (!tensor.segment().scope().isAlive()) {
      throw invalid(
          ErrorCode.TENSOR_CLOSED,
          name,
          tensor,
          "in open memory",
          "close its arena after the operation");
    }
  }

  /** Requires that no device stream was given. */
  public static void noStream(@Nullable DeviceStream stream) {
    if (stream != null) {
      throw invalid(
          ErrorCode.STREAM_ON_HOST,
          "stream",
          stream,
          "null for the host engine",
          "pass no stream, or open the buffer with engine 'cuda'");
    }
  }

  /** Requires host memory that an operation may write. */
  public static void writableOnHost(String name, Tensor tensor) {
    onHost(name, tensor);
    if (tensor.segment().isReadOnly()) {
      throw invalid(
          ErrorCode.TENSOR_READ_ONLY,
          name,
          tensor + " (read-only)",
          "writable",
          "pass a writable segment");
    }
  }

  /** Checks a number of tokens against a maximum of the configuration. */
  public static void tokenCount(String name, long tokens, int max, String field) {
    if (tokens > max) {
      throw invalid(
          ErrorCode.TOO_MANY_TOKENS,
          name,
          tokens + " tokens",
          "at most " + max + " (BufferConfig." + field + ")",
          "split the batch, or open the buffer with a larger " + field);
    }
  }

  /** Checks the shape of a routing against the configuration. */
  public static void routing(BufferConfig config, Routing routing, int maxTokens, String field) {
    Tensor ids = routing.topkIdx();
    if (ids.size(1) < 1 || ids.size(1) > config.topK()) {
      throw invalid(
          ErrorCode.TOP_K_TOO_LARGE,
          "topkIdx",
          ids,
          "[tokens, 1.." + config.topK() + "] (BufferConfig.topK)",
          "open the buffer with a larger topK");
    }
    tokenCount("topkIdx", ids.size(0), maxTokens, field);
  }

  /** The error of an accessor whose tensor the result does not have. */
  public static IllegalUseException missing(String name, String why) {
    return new IllegalUseException(
        ErrorCode.RESULT_MISSING, "the result has no " + name + ": " + why);
  }

  /** Whether two tensors share bytes; tensors on the Java heap count as disjoint. */
  public static boolean overlap(Tensor a, Tensor b) {
    return a.device() == b.device()
        && (a.onDevice() || (a.nativeHost() && b.nativeHost()))
        && a.address() < b.address() + b.byteSize()
        && b.address() < a.address() + a.byteSize();
  }

  /** Error for an id that names no expert. */
  public static InvalidArgumentException noSuchExpert(int token, int k, long id, int experts) {
    return invalid(
        ErrorCode.NO_SUCH_EXPERT,
        "topkIdx[" + token + ", " + k + "]",
        id,
        "-1.." + (experts - 1) + " (" + experts + " experts)",
        "use -1 for no expert");
  }

  /** Error for a combine that names another expert than its dispatch. */
  public static InvalidArgumentException notAsDispatched(
      int token, int k, long id, long dispatched) {
    return invalid(
        ErrorCode.ROUTING_CHANGED,
        "topkIdx[" + token + ", " + k + "]",
        id,
        dispatched + " as dispatched, or -1 to skip it",
        "pass the routing of the dispatch");
  }

  /** Error for an expert chosen twice by one token. */
  public static InvalidArgumentException duplicateExpert(int token, int k, long id) {
    return invalid(
        ErrorCode.EXPERT_TWICE,
        "topkIdx[" + token + ", " + k + "]",
        id,
        "different from the other choices of its token",
        "choose each expert at most once; fill padding rows with -1, not with [0, 0, ...] as DeepEP");
  }
}
