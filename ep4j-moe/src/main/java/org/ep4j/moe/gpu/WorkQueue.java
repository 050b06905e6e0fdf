package org.ep4j.moe.gpu;

import java.lang.foreign.MemorySegment;
import java.util.List;
import org.ep4j.execution.DeviceStream;
import org.ep4j.moe.cublas.Fp8Product;
import org.ep4j.moe.cublas.Product;

/**
 * Work of a GPU, done in the order of these calls. They return at once, except {@link #await} and
 * {@link #fetch}. One thread at a time.
 */
public interface WorkQueue {
  /** Points in time that {@link #mark} can note. */
  int POINTS = 8;

  /** Most bytes of {@link #fetch}. */
  int FETCH_BYTES = 1 << 16;

  /** The queue as engines know it. */
  DeviceStream stream();

  /**
   * Runs a kernel.
   *
   * @param sharedBytes dynamic shared memory of a block
   * @param parameters as its file describes: addresses, numbers, and bits of FP32
   */
  void launch(MoeKernel kernel, int blocks, int sharedBytes, long... parameters);

  /** Computes a product. */
  void multiply(Product product);

  /** Computes products of new BF16 results that do not overlap, at once where cuBLAS can. */
  void multiplyAll(List<Product> products);

  /** Whether there are products of FP8 of a size, for any number of rows. */
  boolean hasFp8Products(int columns, int terms);

  /** Computes a product of a size that exists. */
  void multiply(Fp8Product product);

  /** Copies numbers to the GPU; the address is valid until {@link #await}, at a multiple of 8. */
  long table(long... numbers);

  /** Copies bytes of this GPU. */
  void copy(long to, long from, long bytes);

  /** Writes zeros. */
  void zero(long address, long bytes);

  /** Later work of this queue waits for the work that {@code other} has now. */
  void after(WorkQueue other);

  /** Notes the time when the work so far ends, as one of {@link #POINTS}; not while captured. */
  void mark(int point);

  /** Nanoseconds between two points whose work has ended. */
  long nanosBetween(int from, int to);

  /** Waits until all work has ended. Each part ends by itself, so the wait does. */
  void await();

  /**
   * Waits as {@link #await}, and reads memory of this GPU.
   *
   * @param bytes at most {@link #FETCH_BYTES}
   * @return valid until the next fetch
   */
  MemorySegment fetch(long address, int bytes);
}
