package org.ep4j.engine.throughput;

import org.ep4j.BufferConfig;
import org.ep4j.CombineOptions;
import org.ep4j.DispatchHandle;
import org.ep4j.DispatchOptions;
import org.ep4j.Layout;
import org.ep4j.Routing;
import org.ep4j.Tensor;
import org.ep4j.Tokens;
import org.ep4j.engine.Arguments;
import org.ep4j.engine.CallExperts;
import org.ep4j.engine.CallMemory;
import org.ep4j.engine.Limits;

/**
 * The checks of the arguments of high-throughput operations, in their order: shapes, types and
 * options of each tensor, then its memory. Passing checks allocate nothing.
 */
public final class HighThroughputChecks {
  private HighThroughputChecks() {}

  /**
   * Checks a dispatch.
   *
   * @param maxScaleBytes bytes of scales for which a row has space
   * @param capacity rows of the receive region
   */
  public static void dispatch(
      BufferConfig config,
      Layout layout,
      Tokens tokens,
      Routing routing,
      DispatchOptions options,
      CallExperts experts,
      int maxScaleBytes,
      long capacity,
      CallMemory memory) {
    Arguments.highThroughput(config);
    Arguments.highThroughputLayout(config, layout);
    tokens(config, tokens, maxScaleBytes, memory);
    routing(config, routing, memory);
    Arguments.sameTokens(tokens, routing);
    Arguments.options(config, layout, options, capacity);
    int ignored = experts.number(options.experts());
  }

  /** Checks the payload of a dispatch. */
  public static void tokens(
      BufferConfig config, Tokens tokens, int maxScaleBytes, CallMemory memory) {
    Arguments.highThroughput(config);
    Arguments.tokens(config, tokens, maxScaleBytes);
    memory.rows("x", tokens.x());
    memory.readable("scales", tokens.scales());
    memory.readable("globalScales", tokens.globalScales());
  }

  /** Checks a routing. */
  public static void routing(BufferConfig config, Routing routing, CallMemory memory) {
    Arguments.highThroughput(config);
    Arguments.routing(config, routing, Limits.tokens(config), Limits.HIGH_THROUGHPUT_TOKENS);
    memory.readable("topkIdx", routing.topkIdx());
    memory.readable("topkWeights", routing.topkWeights());
  }

  /** Checks a dispatch along the routes of {@code handle} with a payload that is checked. */
  public static void cached(Layout layout, Tokens tokens, DispatchHandle handle) {
    Arguments.sameLayout(layout, handle);
    Arguments.sameTokens(tokens, handle);
  }

  /**
   * Checks a combine.
   *
   * @param max number of rows that always suffices, see {@link Arguments#combine}
   * @param all whether they are required
   */
  public static void combine(
      BufferConfig config,
      Tensor y,
      PooledHandle handle,
      CombineOptions options,
      long max,
      boolean all,
      CallMemory memory) {
    Arguments.combine(config, y, handle, options, max, all);
    Arguments.applyWeights(options, handle, handle.weighted);
    Arguments.wholeRows("y", y);
    memory.rows("y", y);
    memory.readable("topkWeights", options.topkWeights());
    memory.rows("bias0", options.bias0());
    memory.rows("bias1", options.bias1());
    memory.writableRows("out", options.out());
  }
}
