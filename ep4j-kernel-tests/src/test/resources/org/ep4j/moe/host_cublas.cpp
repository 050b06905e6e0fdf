// The functions of cuBLAS that a layer calls, over memory of the host: column-major products of BF16, with
// sums in FP32 in ascending order of terms. They refuse what cuBLAS refuses. Streams are ignored: all work
// happens at once.
#include <cstdint>
#include <cstring>

namespace {

constexpr int SUCCESS = 0, INVALID_VALUE = 7, NOT_SUPPORTED = 15;
constexpr int OP_N = 0, OP_T = 1;
constexpr int R_32F = 0, R_16BF = 14, COMPUTE_32F = 68;

struct Handle {
  uint64_t stream;
  uint64_t workspace;
  size_t workspace_bytes;
  int math_mode;
};

float widened(uint16_t bits) {
  uint32_t word = (uint32_t)bits << 16;
  float value;
  std::memcpy(&value, &word, sizeof value);
  return value;
}

uint16_t rounded(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return value != value ? 0x7fff : (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

int larger(int a, int b) { return a > b ? a : b; }

}  // namespace

extern "C" {

int cublasCreate_v2(Handle** out) {
  *out = new Handle{};
  return SUCCESS;
}

int cublasDestroy_v2(Handle* handle) {
  delete handle;
  return SUCCESS;
}

int cublasSetStream_v2(Handle* handle, uint64_t stream) {
  handle->stream = stream;
  handle->workspace = 0;
  return SUCCESS;
}

int cublasSetWorkspace_v2(Handle* handle, uint64_t workspace, size_t bytes) {
  handle->workspace = workspace;
  handle->workspace_bytes = bytes;
  return workspace % 256 == 0 ? SUCCESS : INVALID_VALUE;
}

int cublasSetMathMode(Handle* handle, int mode) {
  handle->math_mode = mode;
  return SUCCESS;
}

int cublasGemmEx(Handle* handle, int transa, int transb, int m, int n, int k, const float* alpha,
                 const uint16_t* a, int typea, int lda, const uint16_t* b, int typeb, int ldb,
                 const float* beta, void* c, int typec, int ldc, int compute, int) {
  bool known = (transa == OP_N || transa == OP_T) && (transb == OP_N || transb == OP_T);
  if (!known || m < 0 || n < 0 || k < 0 || lda < larger(1, transa == OP_N ? m : k) ||
      ldb < larger(1, transb == OP_N ? k : n) || ldc < larger(1, m)) {
    return INVALID_VALUE;
  }
  if (handle->workspace == 0 || typea != R_16BF || typeb != R_16BF || (typec != R_16BF && typec != R_32F) ||
      compute != COMPUTE_32F) {
    return NOT_SUPPORTED;
  }
  for (int j = 0; j < n; j++) {
    for (int i = 0; i < m; i++) {
      float sum = 0;
      for (int t = 0; t < k; t++) {
        sum += widened(transa == OP_N ? a[i + (size_t)t * lda] : a[t + (size_t)i * lda]) *
               widened(transb == OP_N ? b[t + (size_t)j * ldb] : b[j + (size_t)t * ldb]);
      }
      size_t at = i + (size_t)j * ldc;
      sum *= *alpha;
      // With a factor of 0, nothing is read: memory may be garbage.
      if (*beta != 0) {
        sum += *beta * (typec == R_32F ? ((float*)c)[at] : widened(((uint16_t*)c)[at]));
      }
      if (typec == R_32F) {
        ((float*)c)[at] = sum;
      } else {
        ((uint16_t*)c)[at] = rounded(sum);
      }
    }
  }
  return SUCCESS;
}

#ifndef WITHOUT_GROUPS
int cublasGemmGroupedBatchedEx(Handle* handle, const int* transa, const int* transb, const int* m,
                               const int* n, const int* k, const float* alpha, const uint16_t* const* a,
                               int typea, const int* lda, const uint16_t* const* b, int typeb, const int* ldb,
                               const float* beta, void* const* c, int typec, const int* ldc, int groups,
                               const int* sizes, int compute) {
  if (typec != typea) {
    return NOT_SUPPORTED;
  }
  int at = 0;
  for (int g = 0; g < groups; g++) {
    for (int i = 0; i < sizes[g]; i++, at++) {
      int result = cublasGemmEx(handle, transa[g], transb[g], m[g], n[g], k[g], &alpha[g], a[at], typea, lda[g],
                                b[at], typeb, ldb[g], &beta[g], c[at], typec, ldc[g], compute, -1);
      if (result != SUCCESS) {
        return result;
      }
    }
  }
  return SUCCESS;
}
#endif

}  // extern "C"
