package org.ep4j.moe.cublas;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.Optional;
import org.ep4j.error.Ep4jException;
import org.ep4j.error.ErrorCode;

/**
 * Products of FP8 matrices with scales of blocks by cuBLASLt, for one stream. The library has them
 * since CUDA 12.9, for GPUs of compute capability 9.0. One thread at a time.
 *
 * <p>The row-major {@code out = left · rightᵀ} is the column-major {@code outᵀ = right · leftᵀ}:
 * the library's A is the right factor, which is transposed, its B the left one, which is not, as
 * FP8 needs it.
 */
public final class CublasLt implements AutoCloseable {
  /** Numbers of rows for which products must exist. */
  private static final int[] ROWS = {4, 8, 16, 64, 128, 1024, 8192};

  private final long handle;
  private final long stream;
  private final long workspace;

  /** Words of calls: out parameters, attributes, and the result of a search. */
  private final Arena arena = Arena.ofShared();

  private final MemorySegment word = arena.allocate(ValueLayout.JAVA_LONG);
  private final MemorySegment result =
      arena.allocate(CublasLtCalls.HEURISTIC_RESULT_BYTES, Long.BYTES);
  private final MemorySegment one = arena.allocateFrom(ValueLayout.JAVA_FLOAT, 1f);
  private final MemorySegment zero = arena.allocateFrom(ValueLayout.JAVA_FLOAT, 0f);
  private long preference;
  private boolean closed;

  private CublasLt(long handle, long stream, long workspace) {
    this.handle = handle;
    this.stream = stream;
    this.workspace = workspace;
  }

  /**
   * A handle; empty if cuBLAS comes without cuBLASLt.
   *
   * @param stream a CUstream
   * @param workspace device memory of {@link Cublas#WORKSPACE_BYTES} at a multiple of 256, which
   *     nothing else uses at the same time
   */
  public static Optional<CublasLt> open(long stream, long workspace) {
    if (CublasLibrary.find("cublasLtMatmul").isEmpty()) {
      return Optional.empty();
    }
    try (Arena words = Arena.ofConfined()) {
      MemorySegment out = words.allocate(ValueLayout.JAVA_LONG);
      Cublas.check(CublasLtCalls.create(out.address()), "cublasLtCreate");
      var lt = new CublasLt(out.get(ValueLayout.JAVA_LONG, 0), stream, workspace);
      try {
        Cublas.check(
            CublasLtCalls.preferenceCreate(out.address()), "cublasLtMatmulPreferenceCreate");
        lt.preference = out.get(ValueLayout.JAVA_LONG, 0);
        lt.word.set(ValueLayout.JAVA_LONG, 0, Cublas.WORKSPACE_BYTES);
        lt.prefer(CublasLtCalls.MAX_WORKSPACE_BYTES, Long.BYTES);
        // Otherwise the library counts on multiples of 256.
        lt.word.set(ValueLayout.JAVA_INT, 0, Fp8Product.ALIGNMENT);
        for (int matrix = 0; matrix < CublasLtCalls.MATRICES; matrix++) {
          lt.prefer(CublasLtCalls.MIN_ALIGNMENT + matrix, Integer.BYTES);
        }
        return Optional.of(lt);
      } catch (RuntimeException e) {
        lt.close();
        throw e;
      }
    }
  }

  /** Sets an attribute of the search to the first bytes of {@link #word}. */
  private void prefer(int attribute, long bytes) {
    Cublas.check(
        CublasLtCalls.preferenceSet(preference, attribute, word.address(), bytes),
        "cublasLtMatmulPreferenceSetAttribute");
  }

  /** Whether library and GPU have products of a size, for any number of rows. */
  public boolean supports(int columns, int terms) {
    if (columns % 128 != 0 || terms % Fp8Product.TERMS != 0) {
      return false;
    }
    for (int rows : ROWS) {
      // Addresses are not read.
      var product =
          new Fp8Product(
              rows, columns, terms, workspace, workspace, workspace, workspace, workspace);
      try (var call = new Call(product)) {
        if (!call.isDescribed() || !call.found()) {
          return false;
        }
      }
    }
    return true;
  }

  /** Enqueues a product of a size that is supported. */
  public void multiply(Fp8Product p) {
    try (var call = new Call(p)) {
      if (!call.isDescribed() || !call.found()) {
        throw new Ep4jException(
            ErrorCode.CUBLAS_CALL_FAILED, "cublasLtMatmulAlgoGetHeuristic found nothing for " + p);
      }
      Cublas.check(
          CublasLtCalls.matmul(
              handle,
              call.description,
              one.address(),
              p.right(),
              call.right,
              p.left(),
              call.left,
              zero.address(),
              p.out(),
              call.out,
              result.address(),
              workspace,
              Cublas.WORKSPACE_BYTES,
              stream),
          "cublasLtMatmul");
    }
  }

  /** Objects of the library for a product. */
  private final class Call implements AutoCloseable {
    private long description;
    private long right;
    private long left;
    private long out;
    private final boolean described;

    Call(Fp8Product p) {
      try {
        Cublas.check(CublasLtCalls.descriptionCreate(word.address()), "cublasLtMatmulDescCreate");
        description = word.get(ValueLayout.JAVA_LONG, 0);
        described =
            set(CublasLtCalls.TRANS_A, CublasCalls.TRANSPOSED)
                && set(CublasLtCalls.TRANS_B, CublasCalls.AS_STORED)
                && set(CublasLtCalls.A_SCALE_MODE, CublasLtCalls.SCALE_OF_BLOCK)
                && set(CublasLtCalls.B_SCALE_MODE, CublasLtCalls.SCALE_OF_128)
                && set(CublasLtCalls.A_SCALE_POINTER, p.factors())
                && set(CublasLtCalls.B_SCALE_POINTER, p.scales());
        right = layout(CublasLtCalls.FP8_E4M3, p.terms(), p.columns());
        left = layout(CublasLtCalls.FP8_E4M3, p.terms(), p.rows());
        out = layout(CublasCalls.BF16, p.columns(), p.rows());
      } catch (RuntimeException e) {
        close();
        throw e;
      }
    }

    /** Whether the library knows the attributes: older ones have no modes of scales. */
    boolean isDescribed() {
      return described;
    }

    private boolean set(int attribute, int value) {
      word.set(ValueLayout.JAVA_INT, 0, value);
      return CublasLtCalls.descriptionSet(description, attribute, word.address(), Integer.BYTES)
          == CublasCalls.SUCCESS;
    }

    private boolean set(int attribute, long address) {
      word.set(ValueLayout.JAVA_LONG, 0, address);
      return CublasLtCalls.descriptionSet(description, attribute, word.address(), Long.BYTES)
          == CublasCalls.SUCCESS;
    }

    private long layout(int type, int rows, int columns) {
      Cublas.check(
          CublasLtCalls.layoutCreate(word.address(), type, rows, columns, rows),
          "cublasLtMatrixLayoutCreate");
      return word.get(ValueLayout.JAVA_LONG, 0);
    }

    /** Looks for an algorithm, and leaves it in {@link #result}. */
    boolean found() {
      word.set(ValueLayout.JAVA_LONG, 0, 0);
      int code =
          CublasLtCalls.heuristic(
              handle, description, right, left, out, preference, result.address(), word.address());
      return code == CublasCalls.SUCCESS && word.get(ValueLayout.JAVA_INT, 0) > 0;
    }

    @Override
    public void close() {
      for (long layout : new long[] {right, left, out}) {
        if (layout != 0) {
          Cublas.check(CublasLtCalls.layoutDestroy(layout), "cublasLtMatrixLayoutDestroy");
        }
      }
      if (description != 0) {
        Cublas.check(CublasLtCalls.descriptionDestroy(description), "cublasLtMatmulDescDestroy");
      }
    }
  }

  /** Destroys the handle. */
  @Override
  public void close() {
    if (!closed) {
      closed = true;
      int preferenceStatus = preference == 0 ? 0 : CublasLtCalls.preferenceDestroy(preference);
      int status = CublasLtCalls.destroy(handle);
      arena.close();
      Cublas.check(preferenceStatus, "cublasLtMatmulPreferenceDestroy");
      Cublas.check(status, "cublasLtDestroy");
    }
  }
}
