// The functions of cuBLAS that a layer calls, over memory of the host: column-major products of BF16, with
// sums in FP32 in ascending order of terms. They refuse what cuBLAS refuses. Streams are ignored: all work
// happens at once.
#include <cmath>
#include <cstdint>
#include <cstring>

namespace {

constexpr int SUCCESS = 0, INVALID_VALUE = 7, NOT_SUPPORTED = 15;
constexpr int OP_N = 0, OP_T = 1;
constexpr int R_32F = 0, R_16BF = 14, R_8F_E4M3 = 28, COMPUTE_32F = 68;
constexpr int VEC128_32F = 4, BLK128X128_32F = 5;

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

// --- cuBLASLt: products of FP8 with scales, as its documentation describes them for Hopper ---------------

struct Description {
  int transa, transb, mode_of_a, mode_of_b;
  const float* scales_of_a;
  const float* scales_of_b;
};

struct Layout {
  int type;
  uint64_t rows, columns;
  int64_t apart;
};

// The alignment that callers promise of addresses.
struct Preference {
  uint64_t workspace_bytes;
  uint32_t alignment_of_a = 256, alignment_of_b = 256, alignment_of_c = 256, alignment_of_d = 256;
};

struct Found {
  uint64_t algorithm[8];
  size_t workspace_bytes;
  int state;
  float waves;
  int reserved[4];
};

struct E4m3 {
  float values[256];

  E4m3() {
    for (int code = 0; code < 256; code++) {
      int exponent = code >> 3 & 15;
      float fraction = code & 7;
      float magnitude = exponent == 0 ? std::ldexp(fraction, -9) : std::ldexp(8 + fraction, exponent - 10);
      values[code] = (code & 0x7f) == 0x7f ? NAN : code & 0x80 ? -magnitude : magnitude;
    }
  }
};

static const E4m3 E4M3;

int cublasLtCreate(uint64_t** out) {
  *out = new uint64_t(0x17);
  return SUCCESS;
}

int cublasLtDestroy(uint64_t* handle) {
  delete handle;
  return SUCCESS;
}

int cublasLtMatmulDescCreate(Description** out, int compute, int type) {
  *out = new Description{};
  return compute == COMPUTE_32F && type == R_32F ? SUCCESS : NOT_SUPPORTED;
}

int cublasLtMatmulDescDestroy(Description* description) {
  delete description;
  return SUCCESS;
}

int cublasLtMatmulDescSetAttribute(Description* description, int attribute, const void* value, size_t bytes) {
  struct {
    int attribute;
    void* field;
    size_t bytes;
  } fields[] = {{3, &description->transa, 4},       {4, &description->transb, 4},
                {17, &description->scales_of_a, 8}, {18, &description->scales_of_b, 8},
                {31, &description->mode_of_a, 4},   {32, &description->mode_of_b, 4}};
  for (auto& field : fields) {
    if (field.attribute == attribute && field.bytes == bytes) {
      std::memcpy(field.field, value, bytes);
      return SUCCESS;
    }
  }
  return INVALID_VALUE;
}

int cublasLtMatrixLayoutCreate(Layout** out, int type, uint64_t rows, uint64_t columns, int64_t apart) {
  *out = new Layout{type, rows, columns, apart};
  return SUCCESS;
}

int cublasLtMatrixLayoutDestroy(Layout* layout) {
  delete layout;
  return SUCCESS;
}

int cublasLtMatmulPreferenceCreate(Preference** out) {
  *out = new Preference{};
  return SUCCESS;
}

int cublasLtMatmulPreferenceDestroy(Preference* preference) {
  delete preference;
  return SUCCESS;
}

int cublasLtMatmulPreferenceSetAttribute(Preference* preference, int attribute, const void* value, size_t bytes) {
  if (attribute == 1 && bytes == 8) {
    std::memcpy(&preference->workspace_bytes, value, bytes);
    return SUCCESS;
  }
  if (attribute < 5 || attribute > 8 || bytes != 4) {
    return INVALID_VALUE;
  }
  std::memcpy(&preference->alignment_of_a + (attribute - 5), value, bytes);
  return SUCCESS;
}

static bool on16(const void* address) { return address != nullptr && (uint64_t)address % 16 == 0; }

int cublasLtMatmulAlgoGetHeuristic(uint64_t* handle, const Description* d, const Layout* a, const Layout* b,
                                   const Layout* c, const Layout* out, const Preference* preference, int wanted, Found* found,
                                   int* count) {
  *count = 0;
  bool fp8 = a->type == R_8F_E4M3 && b->type == R_8F_E4M3 && out->type == R_16BF && c->type == R_16BF;
  bool sizes = a->rows == b->rows && out->rows == a->columns && out->columns == b->columns &&
               a->columns % 4 == 0 && b->columns % 4 == 0 && a->rows % 512 == 0;
  bool dense = a->apart == (int64_t)a->rows && b->apart == (int64_t)b->rows && out->apart == (int64_t)out->rows;
  bool modes = d->mode_of_a == BLK128X128_32F && d->mode_of_b == VEC128_32F;
  bool scales = on16(d->scales_of_a) && on16(d->scales_of_b);
  if (*handle != 0x17 || wanted < 1 || !fp8 || !sizes || !dense || !modes || !scales || d->transa != OP_T ||
      d->transb != OP_N) {
    return NOT_SUPPORTED;
  }
  std::memset(found, 0, sizeof *found);
  found->algorithm[3] = 0x42;
  // An algorithm that uses what is promised.
  found->algorithm[4] = preference->alignment_of_a;
  found->algorithm[5] = preference->alignment_of_b;
  found->algorithm[6] = preference->alignment_of_d;
  *count = 1;
  return SUCCESS;
}

// Scales of A: for each 128 of its columns, one for each 128 terms; of B: for each 128 terms, one for each column.
int cublasLtMatmul(uint64_t*, const Description* d, const float* alpha, const uint8_t* a, const Layout* of_a,
                   const uint8_t* b, const Layout* of_b, const float* beta, const void* c, const Layout*, void* out,
                   const Layout* of_out, const uint64_t* algorithm, void* workspace, size_t, uint64_t) {
  if (algorithm[3] != 0x42 || *alpha != 1 || *beta != 0 || c != out || (uint64_t)a % algorithm[4] != 0 ||
      (uint64_t)b % algorithm[5] != 0 || (uint64_t)out % algorithm[6] != 0 || (uint64_t)workspace % 256 != 0) {
    return INVALID_VALUE;
  }
  uint64_t terms = of_a->rows;
  for (uint64_t j = 0; j < of_out->columns; j++) {
    for (uint64_t i = 0; i < of_out->rows; i++) {
      float sum = 0;
      for (uint64_t block = 0; block < terms / 128; block++) {
        float part = 0;
        for (uint64_t t = block * 128; t < block * 128 + 128; t++) {
          part += E4M3.values[a[t + i * terms]] * E4M3.values[b[t + j * terms]];
        }
        sum += part * d->scales_of_a[i / 128 * (terms / 128) + block] *
               d->scales_of_b[block * of_b->columns + j];
      }
      ((uint16_t*)out)[i + j * of_out->rows] = rounded(sum);
    }
  }
  return SUCCESS;
}
#endif

}  // extern "C"
