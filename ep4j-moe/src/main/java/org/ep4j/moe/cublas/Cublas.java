package org.ep4j.moe.cublas;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.List;
import java.util.function.ToLongFunction;
import org.ep4j.error.Ep4jException;
import org.ep4j.error.ErrorCode;

/**
 * A handle of cuBLAS for one stream. cuBLAS knows columns: the row-major {@code out = left · right}
 * is the column-major {@code outᵀ = rightᵀ · leftᵀ}, over the same memory. The device of the stream
 * is current for the calling thread. One thread at a time.
 */
public final class Cublas implements AutoCloseable {
  /** Workspace of a handle, as NVIDIA recommends it for Hopper. */
  public static final long WORKSPACE_BYTES = 32 << 20;

  /**
   * Multiplications of a product from which one call a product takes less time than one call for
   * all. On an H200 with cuBLAS 13, 64 products by matrices [4096, 7168] and [7168, 2048] cross
   * between 64 and 96 rows; at 512 rows one call for all takes 2.2 to 2.4 times as long.
   */
  private static final long LARGE_PRODUCT = 1_750_000_000;

  /** Addresses of each product: right factor, left factor, result. */
  private static final int TABLES = 3;

  private final long handle;
  private final boolean grouped;

  /** Factors of products and of what was there before: 1 and 0. */
  private final Arena arena = Arena.ofShared();

  private final MemorySegment one = arena.allocateFrom(ValueLayout.JAVA_FLOAT, 1f);
  private final MemorySegment zero = arena.allocateFrom(ValueLayout.JAVA_FLOAT, 0f);
  private boolean closed;

  private Cublas(long handle, boolean grouped) {
    this.handle = handle;
    this.grouped = grouped;
  }

  /**
   * A handle.
   *
   * @param stream a CUstream
   * @param workspace device memory of {@link #WORKSPACE_BYTES} at a multiple of 256, for this
   *     handle alone, until it is closed
   * @throws org.ep4j.error.EngineUnavailableException if there is no cuBLAS
   */
  public static Cublas open(long stream, long workspace) {
    CublasLibrary.require();
    try (Arena words = Arena.ofConfined()) {
      MemorySegment out = words.allocate(ValueLayout.JAVA_LONG);
      check(CublasCalls.create(out.address()), "cublasCreate");
      Cublas cublas = new Cublas(out.get(ValueLayout.JAVA_LONG, 0), CublasCalls.hasGrouped());
      try {
        check(CublasCalls.setStream(cublas.handle, stream), "cublasSetStream");
        check(
            CublasCalls.setWorkspace(cublas.handle, workspace, WORKSPACE_BYTES),
            "cublasSetWorkspace");
        check(
            CublasCalls.setMathMode(cublas.handle, CublasCalls.NO_NARROW_SUMS),
            "cublasSetMathMode");
        return cublas;
      } catch (RuntimeException e) {
        cublas.close();
        throw e;
      }
    }
  }

  /** Enqueues a product. */
  public void multiply(Product p) {
    check(
        CublasCalls.gemm(
            handle,
            transA(p),
            transB(p),
            p.columns(),
            p.rows(),
            p.terms(),
            one.address(),
            p.right(),
            lda(p),
            p.left(),
            ldb(p),
            (p.adds() ? one : zero).address(),
            p.out(),
            p.fp32() ? CublasCalls.FP32 : CublasCalls.BF16,
            p.columns()),
        "cublasGemmEx");
  }

  private static long[] addresses(List<Product> products) {
    int count = products.size();
    var addresses = new long[TABLES * count];
    for (int i = 0; i < count; i++) {
      addresses[i] = products.get(i).right();
      addresses[count + i] = products.get(i).left();
      addresses[2 * count + i] = products.get(i).out();
    }
    return addresses;
  }

  /**
   * Enqueues products whose results are BF16 and do not overlap: by one call if the library has
   * such calls and the products are small, otherwise by a call a product. A graph can hold a single
   * product, but no table, whose memory later calls write again.
   *
   * @param table writes addresses into device memory, in stream order, and returns theirs; called
   *     at most once
   */
  public void multiplyAll(List<Product> products, ToLongFunction<long[]> table) {
    int count = products.size();
    if (!grouped || count < 2 || areLarge(products)) {
      products.forEach(this::multiply);
      return;
    }
    long at = table.applyAsLong(addresses(products));
    try (Arena words = Arena.ofConfined()) {
      var arrays = new Arrays(words, count);
      for (int i = 0; i < count; i++) {
        arrays.set(i, products.get(i));
      }
      long bytes = (long) count * Long.BYTES;
      check(
          CublasCalls.gemmGrouped(
              handle,
              arrays.transA.address(),
              arrays.transB.address(),
              arrays.m.address(),
              arrays.n.address(),
              arrays.k.address(),
              arrays.alpha.address(),
              at,
              arrays.lda.address(),
              at + bytes,
              arrays.ldb.address(),
              arrays.beta.address(),
              at + 2 * bytes,
              arrays.ldc.address(),
              count,
              arrays.sizes.address()),
          "cublasGemmGroupedBatchedEx");
    }
  }

  private static boolean areLarge(List<Product> products) {
    long multiplications = 0;
    for (Product p : products) {
      multiplications += (long) p.rows() * p.columns() * p.terms();
    }
    return multiplications >= LARGE_PRODUCT * products.size();
  }

  /** A group of one product for each: an element of each array. The library reads them at once. */
  private static final class Arrays {
    private final MemorySegment transA;
    private final MemorySegment transB;
    private final MemorySegment m;
    private final MemorySegment n;
    private final MemorySegment k;
    private final MemorySegment alpha;
    private final MemorySegment lda;
    private final MemorySegment ldb;
    private final MemorySegment beta;
    private final MemorySegment ldc;
    private final MemorySegment sizes;

    private Arrays(Arena words, int count) {
      transA = words.allocate(ValueLayout.JAVA_INT, count);
      transB = words.allocate(ValueLayout.JAVA_INT, count);
      m = words.allocate(ValueLayout.JAVA_INT, count);
      n = words.allocate(ValueLayout.JAVA_INT, count);
      k = words.allocate(ValueLayout.JAVA_INT, count);
      alpha = words.allocate(ValueLayout.JAVA_FLOAT, count);
      lda = words.allocate(ValueLayout.JAVA_INT, count);
      ldb = words.allocate(ValueLayout.JAVA_INT, count);
      beta = words.allocate(ValueLayout.JAVA_FLOAT, count);
      ldc = words.allocate(ValueLayout.JAVA_INT, count);
      sizes = words.allocate(ValueLayout.JAVA_INT, count);
    }

    private void set(int i, Product p) {
      if (p.fp32() || p.adds()) {
        throw new AssertionError("products of a group have new BF16 results: " + p);
      }
      transA.setAtIndex(ValueLayout.JAVA_INT, i, Cublas.transA(p));
      transB.setAtIndex(ValueLayout.JAVA_INT, i, Cublas.transB(p));
      m.setAtIndex(ValueLayout.JAVA_INT, i, p.columns());
      n.setAtIndex(ValueLayout.JAVA_INT, i, p.rows());
      k.setAtIndex(ValueLayout.JAVA_INT, i, p.terms());
      alpha.setAtIndex(ValueLayout.JAVA_FLOAT, i, 1);
      lda.setAtIndex(ValueLayout.JAVA_INT, i, Cublas.lda(p));
      ldb.setAtIndex(ValueLayout.JAVA_INT, i, Cublas.ldb(p));
      beta.setAtIndex(ValueLayout.JAVA_FLOAT, i, 0);
      ldc.setAtIndex(ValueLayout.JAVA_INT, i, p.columns());
      sizes.setAtIndex(ValueLayout.JAVA_INT, i, 1);
    }
  }

  // The column-major product has the right factor first.

  private static int transA(Product p) {
    return p.rightTransposed() ? CublasCalls.TRANSPOSED : CublasCalls.AS_STORED;
  }

  private static int transB(Product p) {
    return p.leftTransposed() ? CublasCalls.TRANSPOSED : CublasCalls.AS_STORED;
  }

  /** Elements between the columns of the first factor, which are rows of the right one's memory. */
  private static int lda(Product p) {
    return p.rightTransposed() ? p.terms() : p.columns();
  }

  private static int ldb(Product p) {
    return p.leftTransposed() ? p.rows() : p.terms();
  }

  static void check(int result, String call) {
    if (result != CublasCalls.SUCCESS) {
      throw new Ep4jException(ErrorCode.CUBLAS_CALL_FAILED, call + " failed: " + name(result));
    }
  }

  private static String name(int result) {
    String name =
        switch (result) {
          case 1 -> "CUBLAS_STATUS_NOT_INITIALIZED";
          case 3 -> "CUBLAS_STATUS_ALLOC_FAILED";
          case 7 -> "CUBLAS_STATUS_INVALID_VALUE";
          case 8 -> "CUBLAS_STATUS_ARCH_MISMATCH";
          case 11 -> "CUBLAS_STATUS_MAPPING_ERROR";
          case 13 -> "CUBLAS_STATUS_EXECUTION_FAILED";
          case 14 -> "CUBLAS_STATUS_INTERNAL_ERROR";
          case 15 -> "CUBLAS_STATUS_NOT_SUPPORTED";
          default -> "an unknown result";
        };
    return name + " (" + result + ")";
  }

  /** Destroys the handle; waits for its products. */
  @Override
  public void close() {
    if (!closed) {
      closed = true;
      arena.close();
      check(CublasCalls.destroy(handle), "cublasDestroy");
    }
  }
}
