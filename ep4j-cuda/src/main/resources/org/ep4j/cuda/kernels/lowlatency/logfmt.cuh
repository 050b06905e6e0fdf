// LogFMT-10: signs and 9-bit logarithms of BF16 values, ten bits a value. The arithmetic equals
// that of org.ep4j.engine.host.kernel.LogFmt, operation by operation; nothing may be contracted.
//
// Format of a piece, of which a warp holds vector v of lane l as in low_latency_formats.cuh: the
// low eight bits of the codes as bytes, then a word of 16 bits for each 8 values with their ninth
// bits below and their signs above, then the meta word of each group of 128: largest magnitude in
// the lower half, smallest in the upper half. If a chunk of the piece cannot be packed, the piece
// travels as BF16, with the values of its other chunks as if they had been packed and unpacked.
#pragma once
#include "lowlatency/low_latency_formats.cuh"

namespace logfmt {

__device__ __forceinline__ u32 floor_of(u32 meta) {
  int max = (int)(meta & 0xffff);
  int min = (int)(meta >> 16);
  int floor = min > max - 0x1000 ? min : max - 0x1000;
  return (u32)(floor > 0x80 ? floor : 0x80);
}

__device__ __forceinline__ bool packable(u32 meta) {
  u32 max = meta & 0xffff;
  return max < 0x3f80 && floor_of(meta) < max;
}

// The logarithm of a magnitude without its exponent, plus `offset`.
__device__ __forceinline__ float fraction_log(u32 bits, float offset) {
  float f = __fmul_rn((float)(bits & 0x7f), 0x1p-7f);
  float q = -0x1.b73374p-6f;
  q = __fmaf_rn(q, f, 0x1.fd72b4p-4f);
  q = __fmaf_rn(q, f, -0x1.1f2b7ep-2f);
  q = __fmaf_rn(q, f, 0x1.d5abb8p-2f);
  q = __fmaf_rn(q, f, -0x1.6fcc30p-1f);
  q = __fmaf_rn(q, f, 0x1.714b70p0f);
  return __fmaf_rn(f, q, offset);
}

// Parameters that the values of a group share.
struct Group {
  int e0;
  float u0;
  float step;

  __device__ __forceinline__ explicit Group(u32 meta) {
    u32 floor = floor_of(meta);
    u32 max = meta & 0xffff;
    e0 = (int)(floor >> 7);
    u0 = fraction_log(floor, 0);
    float range = __fadd_rn((float)((int)(max >> 7) - e0), fraction_log(max, -u0));
    step = __fdiv_rn(range, 510.0f);
  }

  __device__ __forceinline__ float inverse() const { return __fdiv_rn(1.0f, step); }

  // Offset that makes codes round to the nearest value, not to the nearest logarithm.
  __device__ __forceinline__ float half() const { return __fmaf_rn(step, -0x1.62e430p-4f, 1.0f); }

  __device__ __forceinline__ u32 code(u32 bits, float inverse, float half) const {
    float d = __fadd_rn((float)((int)(bits >> 7) - e0), fraction_log(bits, -u0));
    float c = __fadd_rn(fmaxf(__fmaf_rn(d, inverse, half), 0.0f), 0x1p23f);
    return __float_as_uint(c) - __float_as_uint(0x1p23f);
  }

  // BF16 bits of the magnitude with a code.
  __device__ __forceinline__ u32 magnitude(u32 code) const {
    float y = __fmaf_rn((float)code, step, __fadd_rn(u0, -step));
    float t = __fadd_rn(y, 0x1.8p23f);
    float r = __fadd_rn(y, -__fadd_rn(t, -0x1.8p23f));
    float e = 0x1.3a02e0p-7f;
    e = __fmaf_rn(e, r, 0x1.c9fc5ap-5f);
    e = __fmaf_rn(e, r, 0x1.ec0378p-3f);
    e = __fmaf_rn(e, r, 0x1.62e12cp-1f);
    e = __fmaf_rn(e, r, 1.0f);
    u32 n = __float_as_uint(t) - __float_as_uint(0x1.8p23f);
    u32 bits = __float_as_uint(e) + ((n + (u32)e0 - 127) << 23);
    return code == 0 ? 0 : (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
  }
};

// Meta word of the group of this lane's vector; 16 lanes share it.
__device__ __forceinline__ u32 meta_of(uint4 v) {
  u32 words[4] = {v.x, v.y, v.z, v.w};
  u32 largest = 0;
  u32 smallest = 0x7fff;
#pragma unroll
  for (u32 i = 0; i < 4; i++) {
    u32 low = words[i] & 0x7fff;
    u32 high = words[i] >> 16 & 0x7fff;
    largest = max(largest, max(low, high));
    smallest = min(smallest, min(low, high));
  }
#pragma unroll
  for (u32 i = 8; i > 0; i /= 2) {
    largest = max(largest, __shfl_xor_sync(0xffffffff, largest, i));
    smallest = min(smallest, __shfl_xor_sync(0xffffffff, smallest, i));
  }
  return smallest << 16 | largest;
}

// Values of a chunk, which is packed as a whole or not at all.
__device__ __forceinline__ u32 chunk_of(u32 hidden) {
  return hidden % 1024 == 0 ? 1024 : hidden % 512 == 0 ? 512 : 128;
}

struct Codes {
  u32 low[2];  // eight bytes
  u32 high;    // ninth bits, then signs
};

__device__ __forceinline__ Codes encode(uint4 v, const Group& group) {
  u32 words[4] = {v.x, v.y, v.z, v.w};
  float inverse = group.inverse();
  float half = group.half();
  Codes codes = {};
#pragma unroll
  for (u32 i = 0; i < 8; i++) {
    u32 bits = words[i / 2] >> (i % 2 * 16) & 0xffff;
    u32 code = group.code(bits & 0x7fff, inverse, half);
    codes.low[i / 4] |= (code & 0xff) << (i % 4 * 8);
    codes.high |= (code >> 8) << i | (bits >> 15) << (8 + i);
  }
  return codes;
}

__device__ __forceinline__ uint4 decode(const Codes& codes, const Group& group) {
  u32 words[4];
#pragma unroll
  for (u32 i = 0; i < 4; i++) {
    u32 pair = 0;
#pragma unroll
    for (u32 j = 0; j < 2; j++) {
      u32 n = 2 * i + j;
      u32 code = (codes.low[n / 4] >> (n % 4 * 8) & 0xff) | (codes.high >> n & 1) << 8;
      pair |= (group.magnitude(code) | (codes.high >> (8 + n) & 1) << 15) << (16 * j);
    }
    words[i] = pair;
  }
  return make_uint4(words[0], words[1], words[2], words[3]);
}

// Mask of this lane's vectors in packable chunks. Vectors behind the end of the row count as
// packable.
__device__ __forceinline__ u32 packable_vectors(const u32 (&metas)[VECTORS], u32 piece, u32 hidden) {
  u32 mine = 0;
#pragma unroll
  for (u32 v = 0; v < VECTORS; v++) {
    mine |= (value_at(piece, v) >= hidden || packable(metas[v]) ? 1u : 0u) << v;
  }
  u32 chunk = chunk_of(hidden);
  if (chunk == 128) {
    return mine;
  }
  u32 all = __reduce_and_sync(0xffffffff, mine);
  constexpr u32 ALL = (1u << VECTORS) - 1;
  if (chunk == 1024) {
    return all == ALL ? ALL : 0;
  }
  return ((all & 3) == 3 ? 3u : 0) | (all >> 2 == 3 ? 12u : 0);
}

// Writes a piece of `x`; returns whether it is packed. `at` is its address as BF16.
__device__ __forceinline__ bool store_piece(char* at, uint4 (&x)[VECTORS], u32 piece, u32 hidden) {
  u32 values = min(PIECE, hidden - piece * PIECE);
  u32 metas[VECTORS];
#pragma unroll
  for (u32 v = 0; v < VECTORS; v++) {
    metas[v] = meta_of(x[v]);
  }
  constexpr u32 ALL = (1u << VECTORS) - 1;
  u32 packed = packable_vectors(metas, piece, hidden);
  bool all = __all_sync(0xffffffff, packed == ALL);
#pragma unroll
  for (u32 v = 0; v < VECTORS; v++) {
    u32 value = v * 256 + lane_id() * 8;
    if (value >= values) {
      continue;
    }
    if (!(packed >> v & 1)) {
      store_row(at + value * 2, x[v]);
      continue;
    }
    Group group(metas[v]);
    Codes codes = encode(x[v], group);
    if (!all) {
      store_row(at + value * 2, decode(codes, group));
      continue;
    }
    *(uint2*)(at + value) = make_uint2(codes.low[0], codes.low[1]);
    *(u16*)(at + values + value / 4) = (u16)codes.high;
    if (lane_id() % 16 == 0) {
      *(u32*)(at + values + values / 4 + value / 32) = metas[v];
    }
  }
  return all;
}

// A lane's vector of a packed piece.
__device__ __forceinline__ uint4 load_vector(const char* at, u32 value, u32 values) {
  Codes codes;
  uint2 low = __ldcg((const uint2*)(at + value));
  codes.low[0] = low.x;
  codes.low[1] = low.y;
  codes.high = __ldcg((const u16*)(at + values + value / 4));
  return decode(codes, Group(__ldcg((const u32*)(at + values + values / 4 + value / 128 * 4))));
}

}  // namespace logfmt
