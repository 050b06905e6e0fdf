package org.ep4j.cuda.driver;

import org.ep4j.error.ErrorCode;
import org.ep4j.error.InvalidArgumentException;

/**
 * Configuration of a kernel launch.
 *
 * @param gridX blocks
 * @param gridY blocks
 * @param gridZ blocks
 * @param blockX threads of a block
 * @param blockY threads of a block
 * @param blockZ threads of a block
 * @param dynamicSharedBytes shared memory of a block in addition to what the source fixes; above 48
 *     KiB the kernel must allow it ({@link Kernel#setMaxDynamicSharedBytes})
 * @param cooperative all blocks run at the same time and can synchronise; the driver refuses a
 *     launch that does not fit
 * @param clusterBlocks blocks of a cluster along x, a divisor of {@code gridX}; 0 for none
 * @param programmatic the kernel may start while the previous kernel of the stream still runs; it
 *     waits for the memory of that kernel itself ({@code griddepcontrol.wait})
 */
public record LaunchConfig(
    int gridX,
    int gridY,
    int gridZ,
    int blockX,
    int blockY,
    int blockZ,
    int dynamicSharedBytes,
    boolean cooperative,
    int clusterBlocks,
    boolean programmatic) {
  /** Checks everything that does not depend on the kernel. */
  public LaunchConfig {
    positive("gridX", gridX);
    positive("gridY", gridY);
    positive("gridZ", gridZ);
    positive("blockX", blockX);
    positive("blockY", blockY);
    positive("blockZ", blockZ);
    if ((long) blockX * blockY * blockZ > 1024) {
      throw new InvalidArgumentException(
          ErrorCode.CUDA_LAUNCH_CONFIG,
          "block",
          blockX + " x " + blockY + " x " + blockZ,
          "at most 1024 threads",
          "use more blocks");
    }
    if (dynamicSharedBytes < 0) {
      throw new InvalidArgumentException(
          ErrorCode.CUDA_LAUNCH_CONFIG,
          "dynamicSharedBytes",
          String.valueOf(dynamicSharedBytes),
          ">= 0",
          "pass 0 for none");
    }
    if (clusterBlocks < 0 || (clusterBlocks > 0 && gridX % clusterBlocks != 0)) {
      throw new InvalidArgumentException(
          ErrorCode.CUDA_LAUNCH_CONFIG,
          "clusterBlocks",
          String.valueOf(clusterBlocks),
          "a divisor of gridX, which is " + gridX,
          "round the grid up, or pass 0 for no clusters");
    }
  }

  /** One-dimensional, without options. */
  public static LaunchConfig of(int blocks, int threads) {
    return new LaunchConfig(blocks, 1, 1, threads, 1, 1, 0, false, 0, false);
  }

  /** A copy with dynamic shared memory. */
  public LaunchConfig withDynamicSharedBytes(int bytes) {
    return new LaunchConfig(
        gridX,
        gridY,
        gridZ,
        blockX,
        blockY,
        blockZ,
        bytes,
        cooperative,
        clusterBlocks,
        programmatic);
  }

  /** A copy with cooperative launch. */
  public LaunchConfig asCooperative() {
    return new LaunchConfig(
        gridX,
        gridY,
        gridZ,
        blockX,
        blockY,
        blockZ,
        dynamicSharedBytes,
        true,
        clusterBlocks,
        programmatic);
  }

  /** A copy with clusters. */
  public LaunchConfig withClusterBlocks(int blocks) {
    return new LaunchConfig(
        gridX,
        gridY,
        gridZ,
        blockX,
        blockY,
        blockZ,
        dynamicSharedBytes,
        cooperative,
        blocks,
        programmatic);
  }

  /** A copy with programmatic launch. */
  public LaunchConfig asProgrammatic() {
    return new LaunchConfig(
        gridX,
        gridY,
        gridZ,
        blockX,
        blockY,
        blockZ,
        dynamicSharedBytes,
        cooperative,
        clusterBlocks,
        true);
  }

  /** Threads of a block. */
  public int blockThreads() {
    return blockX * blockY * blockZ;
  }

  private static void positive(String name, int value) {
    if (value < 1) {
      throw new InvalidArgumentException(
          ErrorCode.CUDA_LAUNCH_CONFIG,
          name,
          String.valueOf(value),
          "at least 1",
          "launch nothing where there is nothing to do");
    }
  }
}
