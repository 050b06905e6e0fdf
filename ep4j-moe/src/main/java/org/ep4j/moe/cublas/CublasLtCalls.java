package org.ep4j.moe.cublas;

import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.Linker;
import java.lang.foreign.MemoryLayout;
import java.lang.foreign.ValueLayout;
import java.lang.invoke.MethodHandle;
import org.ep4j.cuda.driver.calls.CudaException;

/**
 * Binding of cuBLASLt, signatures of {@code cublasLt.h}: a library that cuBLAS loads, whose symbols
 * are found with those of cuBLAS. Every method returns the library's result code; {@link CublasLt}
 * checks it. Initialised only where the library has the functions.
 */
@SuppressWarnings("restricted") // links native functions
final class CublasLtCalls {
  /** {@code CUDA_R_8F_E4M3} of {@code library_types.h}. */
  static final int FP8_E4M3 = 28;

  /** {@code CUBLASLT_MATMUL_DESC_TRANSA}. */
  static final int TRANS_A = 3;

  /** {@code CUBLASLT_MATMUL_DESC_TRANSB}. */
  static final int TRANS_B = 4;

  /** {@code CUBLASLT_MATMUL_DESC_A_SCALE_POINTER}. */
  static final int A_SCALE_POINTER = 17;

  /** {@code CUBLASLT_MATMUL_DESC_B_SCALE_POINTER}. */
  static final int B_SCALE_POINTER = 18;

  /** {@code CUBLASLT_MATMUL_DESC_A_SCALE_MODE}. */
  static final int A_SCALE_MODE = 31;

  /** {@code CUBLASLT_MATMUL_DESC_B_SCALE_MODE}. */
  static final int B_SCALE_MODE = 32;

  /** {@code CUBLASLT_MATMUL_MATRIX_SCALE_VEC128_32F}. */
  static final int SCALE_OF_128 = 4;

  /** {@code CUBLASLT_MATMUL_MATRIX_SCALE_BLK128x128_32F}. */
  static final int SCALE_OF_BLOCK = 5;

  /** {@code CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES}. */
  static final int MAX_WORKSPACE_BYTES = 1;

  /** {@code CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES}; those of B, C and D follow. */
  static final int MIN_ALIGNMENT = 5;

  /** Matrices of a product: A, B, C and D. */
  static final int MATRICES = 4;

  /** Bytes of {@code cublasLtMatmulHeuristicResult_t}, which begins with the algorithm. */
  static final int HEURISTIC_RESULT_BYTES = 96;

  private static final ValueLayout.OfInt INT = ValueLayout.JAVA_INT;

  /** An address, or an integer of eight bytes. */
  private static final ValueLayout.OfLong AT = ValueLayout.JAVA_LONG;

  private static final MethodHandle CREATE = link("cublasLtCreate", AT);
  private static final MethodHandle DESTROY = link("cublasLtDestroy", AT);
  private static final MethodHandle DESC_CREATE = link("cublasLtMatmulDescCreate", AT, INT, INT);
  private static final MethodHandle DESC_DESTROY = link("cublasLtMatmulDescDestroy", AT);
  private static final MethodHandle DESC_SET =
      link("cublasLtMatmulDescSetAttribute", AT, INT, AT, AT);
  private static final MethodHandle LAYOUT_CREATE =
      link("cublasLtMatrixLayoutCreate", AT, INT, AT, AT, AT);
  private static final MethodHandle LAYOUT_DESTROY = link("cublasLtMatrixLayoutDestroy", AT);
  private static final MethodHandle PREFERENCE_CREATE = link("cublasLtMatmulPreferenceCreate", AT);
  private static final MethodHandle PREFERENCE_DESTROY =
      link("cublasLtMatmulPreferenceDestroy", AT);
  private static final MethodHandle PREFERENCE_SET =
      link("cublasLtMatmulPreferenceSetAttribute", AT, INT, AT, AT);
  private static final MethodHandle HEURISTIC =
      link(
          "cublasLtMatmulAlgoGetHeuristic",
          AT, // lightHandle
          AT, // operationDesc
          AT, // Adesc
          AT, // Bdesc
          AT, // Cdesc
          AT, // Ddesc
          AT, // preference
          INT, // requestedAlgoCount
          AT, // heuristicResultsArray
          AT); // returnAlgoCount
  private static final MethodHandle MATMUL =
      link(
          "cublasLtMatmul",
          AT, // lightHandle
          AT, // computeDesc
          AT, // alpha
          AT, // A
          AT, // Adesc
          AT, // B
          AT, // Bdesc
          AT, // beta
          AT, // C
          AT, // Cdesc
          AT, // D
          AT, // Ddesc
          AT, // algo
          AT, // workspace
          AT, // workspaceSizeInBytes
          AT); // stream

  private CublasLtCalls() {}

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

  /** Writes a description of a product with sums and factors in FP32. */
  static int descriptionCreate(long description) {
    try {
      return (int) DESC_CREATE.invokeExact(description, CublasCalls.SUMS_IN_FP32, CublasCalls.FP32);
    } catch (Throwable t) {
      throw CudaException.unexpected(t);
    }
  }

  static int descriptionDestroy(long description) {
    try {
      return (int) DESC_DESTROY.invokeExact(description);
    } catch (Throwable t) {
      throw CudaException.unexpected(t);
    }
  }

  static int descriptionSet(long description, int attribute, long value, long bytes) {
    try {
      return (int) DESC_SET.invokeExact(description, attribute, value, bytes);
    } catch (Throwable t) {
      throw CudaException.unexpected(t);
    }
  }

  /** Writes a layout of a column-major matrix. */
  static int layoutCreate(long layout, int type, long rows, long columns, long apart) {
    try {
      return (int) LAYOUT_CREATE.invokeExact(layout, type, rows, columns, apart);
    } catch (Throwable t) {
      throw CudaException.unexpected(t);
    }
  }

  static int layoutDestroy(long layout) {
    try {
      return (int) LAYOUT_DESTROY.invokeExact(layout);
    } catch (Throwable t) {
      throw CudaException.unexpected(t);
    }
  }

  static int preferenceCreate(long preference) {
    try {
      return (int) PREFERENCE_CREATE.invokeExact(preference);
    } catch (Throwable t) {
      throw CudaException.unexpected(t);
    }
  }

  static int preferenceDestroy(long preference) {
    try {
      return (int) PREFERENCE_DESTROY.invokeExact(preference);
    } catch (Throwable t) {
      throw CudaException.unexpected(t);
    }
  }

  static int preferenceSet(long preference, int attribute, long value, long bytes) {
    try {
      return (int) PREFERENCE_SET.invokeExact(preference, attribute, value, bytes);
    } catch (Throwable t) {
      throw CudaException.unexpected(t);
    }
  }

  /** Writes one result, and whether there is one. */
  static int heuristic(
      long handle,
      long description,
      long a,
      long b,
      long d,
      long preference,
      long out,
      long count) {
    try {
      return (int)
          HEURISTIC.invokeExact(handle, description, a, b, d, d, preference, 1, out, count);
    } catch (Throwable t) {
      throw CudaException.unexpected(t);
    }
  }

  /** {@code D = alpha op(A) op(B)}, column-major; {@code beta} is the address of 0. */
  static int matmul(
      long handle,
      long description,
      long alpha,
      long a,
      long layoutOfA,
      long b,
      long layoutOfB,
      long beta,
      long d,
      long layoutOfD,
      long algorithm,
      long workspace,
      long workspaceBytes,
      long stream) {
    try {
      return (int)
          MATMUL.invokeExact(
              handle,
              description,
              alpha,
              a,
              layoutOfA,
              b,
              layoutOfB,
              beta,
              d,
              layoutOfD,
              d,
              layoutOfD,
              algorithm,
              workspace,
              workspaceBytes,
              stream);
    } catch (Throwable t) {
      throw CudaException.unexpected(t);
    }
  }

  private static MethodHandle link(String symbol, MemoryLayout... parameters) {
    return Linker.nativeLinker()
        .downcallHandle(
            CublasLibrary.address(symbol), FunctionDescriptor.of(ValueLayout.JAVA_INT, parameters));
  }
}
