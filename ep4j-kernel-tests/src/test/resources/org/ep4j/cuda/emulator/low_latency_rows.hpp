// A plain model of row formats in low-latency operations: one value at a time, by search.
#pragma once
#include "machine.hpp"

namespace emulator {

typedef std::vector<u16> Halves;  // BF16

inline float widened(u16 half) { return __uint_as_float((u32)half << 16); }

// Random bits determined by a few numbers.
inline u64 mixed(u64 a, u64 b = 0, u64 c = 0, u64 d = 0) {
  u64 bits = 0x9e3779b97f4a7c15;
  for (u64 each : {a, b, c, d}) {
    bits = (bits ^ each) * 0xbf58476d1ce4e5b9;
    bits ^= bits >> 29;
  }
  return bits;
}

// The row of `key`. In some rows all magnitudes are below 1, in others not; a few values are zero,
// infinite or NaN.
inline Halves drawn_row(u64 key, u32 hidden) {
  Halves row(hidden);
  u32 largest = 100 + (u32)(mixed(key) % 40);
  for (u32 i = 0; i < hidden; i++) {
    u64 bits = mixed(key, i + 1);
    u32 exponent = largest - (u32)(bits >> 16 & 7);
    u32 special = (u32)(bits >> 32) % 3000;
    row[i] = special == 0   ? (u16)(bits & 0x8000)
             : special == 1 ? (u16)(0x7f80 | (bits & 0x8000))
             : special == 2 ? (u16)(0x7fc0 | (bits & 0x8000))
                            : (u16)(exponent << 7 | (bits & 0x807f));
  }
  return row;
}

// --- small floats ------------------------------------------------------------------------------

class SmallFloat {
 public:
  // The last of the `codes` magnitudes is the largest.
  SmallFloat(u32 fraction_bits, int bias, u32 codes, u32 sign) : sign(sign) {
    for (u32 code = 0; code < codes; code++) {
      int exponent = (int)(code >> fraction_bits);
      double fraction = (code & ((1u << fraction_bits) - 1)) / (double)(1u << fraction_bits);
      magnitudes.push_back(exponent == 0 ? std::ldexp(fraction, 1 - bias)
                                         : std::ldexp(1 + fraction, exponent - bias));
    }
  }

  float magnitude(u32 code) const { return (float)magnitudes[code]; }

  // Rounds to nearest, ties to even; saturates.
  u32 code(float value) const {
    double wanted = std::fmin(std::fabs((double)value), magnitudes.back());
    auto above = std::lower_bound(magnitudes.begin(), magnitudes.end(), wanted);
    u32 code = (u32)(above - magnitudes.begin());
    if (code > 0) {
      double up = *above - wanted;
      double down = wanted - magnitudes[code - 1];
      code -= down < up || (down == up && code % 2 == 1) ? 1 : 0;
    }
    return std::signbit(value) ? code | sign : code;
  }

 private:
  u32 sign;
  std::vector<double> magnitudes;
};

inline const SmallFloat E4M3(3, 7, 127, 0x80);
inline const SmallFloat E2M1(1, 1, 8, 8);

inline u32 e4m3(float value) { return std::isnan(value) ? 0x7f : E4M3.code(value); }
inline u32 e2m1(float value) { return std::isnan(value) ? 7 : E2M1.code(value); }

// --- dispatched rows ---------------------------------------------------------------------------

// Numbered as in org.ep4j.engine.lowlatency.LowLatencyFormat.
enum Format { BF16_ROWS, NVFP4_ROWS, FP8_ROWS, FP8_POW2_ROWS, FP8_UE8M0_ROWS, FORMATS };

struct Encoding {
  Format format;
  u32 hidden;
  float global_scale;

  u32 row_bytes() const {
    return format == BF16_ROWS ? 2 * hidden : format == NVFP4_ROWS ? hidden / 2 : hidden;
  }

  u32 scale_bytes() const {
    return format == BF16_ROWS        ? 0
           : format == NVFP4_ROWS     ? hidden / 16
           : format == FP8_UE8M0_ROWS ? hidden / 128
                                      : hidden / 128 * 4;
  }

  // bytes of one scale in a column
  u32 column_unit() const { return format == NVFP4_ROWS ? 1 : 4; }

  std::vector<u8> encoded(const Halves& row) const {
    std::vector<u8> bytes(row_bytes() + scale_bytes());
    if (format == BF16_ROWS) {
      std::memcpy(bytes.data(), row.data(), row_bytes());
      return bytes;
    }
    u32 group = format == NVFP4_ROWS ? 16 : 128;
    for (u32 first = 0; first < hidden; first += group) {
      float largest = 0;
      for (u32 i = first; i < first + group; i++) {
        largest = std::fmax(largest, std::fabs(widened(row[i])));
      }
      if (format == NVFP4_ROWS) {
        encode_nvfp4(row, first, largest, bytes);
      } else {
        encode_fp8(row, first, std::fmax(largest, 1e-4f), bytes);
      }
    }
    return bytes;
  }

 private:
  void encode_nvfp4(const Halves& row, u32 first, float largest, std::vector<u8>& bytes) const {
    float sixth = 1.0f / 6.0f;
    float wanted = largest * sixth;
    wanted = global_scale * wanted;
    u32 scale = e4m3(wanted);
    float by = scale == 0 ? 0 : global_scale / E4M3.magnitude(scale);
    bytes[row_bytes() + first / 16] = (u8)scale;
    for (u32 i = first; i < first + 16; i++) {
      float value = widened(row[i]) * by;
      bytes[i / 2] |= (u8)(e2m1(value) << (i % 2 * 4));
    }
  }

  void encode_fp8(const Halves& row, u32 first, float largest, std::vector<u8>& bytes) const {
    float scale = largest * (1.0f / 448.0f);
    float by = 448.0f / largest;
    int exponent = 255;
    if (format != FP8_ROWS && !std::isinf(largest)) {
      bool power = std::frexp(scale, &exponent) == 0.5f;
      exponent -= power ? 1 : 0;
      scale = std::ldexp(1.0f, exponent);
      by = std::ldexp(1.0f, -exponent);
      exponent += 127;
    }
    by = std::isinf(largest) ? 0 : by;
    u8* at = &bytes[row_bytes()] + first / 128 * (format == FP8_UE8M0_ROWS ? 1 : 4);
    if (format == FP8_UE8M0_ROWS) {
      *at = (u8)exponent;
    } else {
      std::memcpy(at, &scale, 4);
    }
    for (u32 i = first; i < first + 128; i++) {
      float value = widened(row[i]) * by;
      bytes[i] = (u8)e4m3(value);
    }
  }
};

// --- rows that travel as LogFMT ----------------------------------------------------------------

// A row after it has travelled. The arithmetic of a value is that of the kernels, which the test
// kit compares with the host engine's; the choice of packed chunks is computed independently here.
inline Halves travelled(const Halves& row) {
  u32 hidden = (u32)row.size();
  u32 token_range = hidden % 1024 == 0 ? 1024 : hidden % 512 == 0 ? 512 : 128;
  Halves result = row;
  for (u32 first = 0; first < hidden; first += token_range) {
    std::vector<u32> metas;
    bool packable = true;
    for (u32 group = first; group < first + token_range; group += 128) {
      u32 largest = 0;
      u32 smallest = 0x7fff;
      for (u32 i = group; i < group + 128; i++) {
        largest = std::max(largest, row[i] & 0x7fffu);
        smallest = std::min(smallest, row[i] & 0x7fffu);
      }
      metas.push_back(smallest << 16 | largest);
      packable = packable && logfmt::packable(metas.back());
    }
    for (u32 i = first; packable && i < first + token_range; i++) {
      logfmt::Group group(metas[(i - first) / 128]);
      u32 code = group.code(row[i] & 0x7fffu, group.inverse(), group.half());
      result[i] = (u16)(group.magnitude(code) | (row[i] & 0x8000));
    }
  }
  return result;
}

}  // namespace emulator
