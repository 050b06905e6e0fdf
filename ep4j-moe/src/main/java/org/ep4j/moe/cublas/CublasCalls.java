package org.ep4j.moe.cublas;

import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.Linker;
import java.lang.foreign.MemoryLayout;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.lang.invoke.MethodHandle;
import org.ep4j.cuda.driver.calls.CudaException;
import org.jspecify.annotations.Nullable;

/**
 * Binding of cuBLAS, signatures of {@code cublas_api.h}. Every method returns the library's result
 * code; {@link Cublas} checks it.
 */
@SuppressWarnings("restricted") // links native functions
final class CublasCalls {
  /** {@code CUBLAS_STATUS_SUCCESS}. */
  static final int SUCCESS = 0;

  /** {@code CUBLAS_OP_N}. */
  static final int AS_STORED = 0;

  /** {@code CUBLAS_OP_T}. */
  static final int TRANSPOSED = 1;

  /** {@code CUDA_R_32F} of {@code library_types.h}. */
  static final int FP32 = 0;

  /** {@code CUDA_R_16BF}. */
  static final int BF16 = 14;

  /** {@code CUBLAS_COMPUTE_32F}. */
  static final int SUMS_IN_FP32 = 68;

  /** {@code CUBLAS_GEMM_DEFAULT}: the library chooses the algorithm. */
  static final int DEFAULT_ALGORITHM = -1;

  /**
   * {@code CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION}: parts of a sum are added in FP32 too.
   */
  static final int NO_NARROW_SUMS = 16;

  private static final ValueLayout.OfInt INT = ValueLayout.JAVA_INT;

  /** An address. */
  private static final ValueLayout.OfLong AT = ValueLayout.JAVA_LONG;

  private static final MethodHandle CREATE = link("cublasCreate_v2", AT);
  private static final MethodHandle DESTROY = link("cublasDestroy_v2", AT);
  private static final MethodHandle SET_STREAM = link("cublasSetStream_v2", AT, AT);
  private static final MethodHandle SET_WORKSPACE = link("cublasSetWorkspace_v2", AT, AT, AT);
  private static final MethodHandle SET_MATH_MODE = link("cublasSetMathMode", AT, INT);
  private static final MethodHandle GEMM_EX =
      link(
          "cublasGemmEx",
          AT, // handle
          INT, // transa
          INT, // transb
          INT, // m
          INT, // n
          INT, // k
          AT, // alpha
          AT, // A
          INT, // Atype
          INT, // lda
          AT, // B
          INT, // Btype
          INT, // ldb
          AT, // beta
          AT, // C
          INT, // Ctype
          INT, // ldc
          INT, // computeType
          INT); // algo

  /** Null before CUDA 12.5. */
  private static final @Nullable MethodHandle GEMM_GROUPED_BATCHED_EX =
      CublasLibrary.find("cublasGemmGroupedBatchedEx")
          .map(
              address ->
                  link(
                      address, AT, // handle
                      AT, // transa_array
                      AT, // transb_array
                      AT, // m_array
                      AT, // n_array
                      AT, // k_array
                      AT, // alpha_array
                      AT, // Aarray
                      INT, // Atype
                      AT, // lda_array
                      AT, // Barray
                      INT, // Btype
                      AT, // ldb_array
                      AT, // beta_array
                      AT, // Carray
                      INT, // Ctype
                      AT, // ldc_array
                      INT, // group_count
                      AT, // group_size
                      INT)) // computeType
          .orElse(null);

  private CublasCalls() {}

  /** Writes a handle. */
  static int create(long handle) {
    try {
      return (int) CREATE.invokeExact(handle);
    } catch (Throwable t) {
      throw CudaException.unexpected(t);
    }
  }

  static int destroy(long handle) {
    try {
      return (int) DESTROY.invokeExact(handle);
    } catch (Throwable t) {
      throw CudaException.unexpected(t);
    }
  }

  /** Products run in this stream; takes the workspace away. */
  static int setStream(long handle, long stream) {
    try {
      return (int) SET_STREAM.invokeExact(handle, stream);
    } catch (Throwable t) {
      throw CudaException.unexpected(t);
    }
  }

  /** Device memory of the products, at a multiple of 256. */
  static int setWorkspace(long handle, long workspace, long bytes) {
    try {
      return (int) SET_WORKSPACE.invokeExact(handle, workspace, bytes);
    } catch (Throwable t) {
      throw CudaException.unexpected(t);
    }
  }

  static int setMathMode(long handle, int mode) {
    try {
      return (int) SET_MATH_MODE.invokeExact(handle, mode);
    } catch (Throwable t) {
      throw CudaException.unexpected(t);
    }
  }

  /** {@code C = alpha op(A) op(B) + beta C}, column-major; factors in BF16. */
  static int gemm(
      long handle,
      int transA,
      int transB,
      int m,
      int n,
      int k,
      long alpha,
      long a,
      int lda,
      long b,
      int ldb,
      long beta,
      long c,
      int typeOfC,
      int ldc) {
    try {
      return (int)
          GEMM_EX.invokeExact(
              handle,
              transA,
              transB,
              m,
              n,
              k,
              alpha,
              a,
              BF16,
              lda,
              b,
              BF16,
              ldb,
              beta,
              c,
              typeOfC,
              ldc,
              SUMS_IN_FP32,
              DEFAULT_ALGORITHM);
    } catch (Throwable t) {
      throw CudaException.unexpected(t);
    }
  }

  /** Whether the library has {@link #gemmGrouped}. */
  static boolean hasGrouped() {
    return GEMM_GROUPED_BATCHED_EX != null;
  }

  /**
   * Groups of products of BF16. Arrays are in host memory, one element a group, but those of
   * addresses {@code a}, {@code b} and {@code c} in device memory, one element a product.
   */
  static int gemmGrouped(
      long handle,
      long transA,
      long transB,
      long m,
      long n,
      long k,
      long alpha,
      long a,
      long lda,
      long b,
      long ldb,
      long beta,
      long c,
      long ldc,
      int groups,
      long products) {
    MethodHandle grouped = GEMM_GROUPED_BATCHED_EX;
    if (grouped == null) {
      throw new AssertionError("hasGrouped() is false");
    }
    try {
      return (int)
          grouped.invokeExact(
              handle,
              transA,
              transB,
              m,
              n,
              k,
              alpha,
              a,
              BF16,
              lda,
              b,
              BF16,
              ldb,
              beta,
              c,
              BF16,
              ldc,
              groups,
              products,
              SUMS_IN_FP32);
    } catch (Throwable t) {
      throw CudaException.unexpected(t);
    }
  }

  private static MethodHandle link(String symbol, MemoryLayout... parameters) {
    return link(CublasLibrary.address(symbol), parameters);
  }

  private static MethodHandle link(MemorySegment address, MemoryLayout... parameters) {
    return Linker.nativeLinker()
        .downcallHandle(address, FunctionDescriptor.of(ValueLayout.JAVA_INT, parameters));
  }
}
