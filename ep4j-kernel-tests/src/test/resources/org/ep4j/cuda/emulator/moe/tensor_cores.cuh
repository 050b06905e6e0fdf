// The instructions of products on the emulated machine, in the place of the kernels' tensor_cores.cuh. A copy
// happens at once or as late as the thread's waits allow: a missing wait reads garbage. Copies are in the
// groups of bulk stores, which no kernel has beside them.
#pragma once
#include "common/fp8.cuh"

inline void copy_async(void* to, const void* from, bool wanted) {
  static const uint4 zeros = {0, 0, 0, 0};
  const void* source = wanted ? from : &zeros;
  emulator::check(to, sizeof(uint4), "copy_async");
  emulator::check(source, sizeof(uint4), "copy_async");
  if ((((u64)to | (u64)from) & 15) != 0) {
    emulator::fail("copy_async: addresses are multiples of 16");
  }
  emulator::LateStore copy{emulator::running->groups, to, source, sizeof(uint4), false, {}};
  if (emulator::coin()) {
    emulator::write_now(copy);
  } else {
    std::memset(to, 0xee, sizeof(uint4));
    emulator::running->stores.push_back(std::move(copy));
  }
}

inline void copy_async_commit() { bulk_commit(); }

template <int N>
void copy_async_wait() {
  bulk_wait<N>();
}

namespace emulator {

inline float of_bf16(u64 pairs, u32 index) { return __uint_as_float((u32)(pairs >> 16 * index) << 16); }

}  // namespace emulator

// Sums in the order of terms, each product exact.
inline void multiply_add(float (&sums)[4], const u32 (&a)[4], const u32 (&b)[2]) {
  // Of all lanes: terms 2t and 2t + 8 of rows g and g + 8, and of column g.
  u64 low[32], high[32], column[32];
  std::memcpy(low, emulator::exchange(0xffffffff, a[0] | (u64)a[2] << 32, "multiply_add"), sizeof low);
  std::memcpy(high, emulator::exchange(0xffffffff, a[1] | (u64)a[3] << 32, "multiply_add"), sizeof high);
  std::memcpy(column, emulator::exchange(0xffffffff, b[0] | (u64)b[1] << 32, "multiply_add"), sizeof column);
  u32 g = lane_id() / 4;
  u32 t = lane_id() % 4;
  for (u32 i = 0; i < 4; i++) {
    const u64* row = i < 2 ? low : high;
    for (u32 term = 0; term < 16; term++) {
      u32 lane = term % 8 / 2;
      u32 index = term / 8 * 2 + term % 2;
      sums[i] += emulator::of_bf16(row[g * 4 + lane], index) *
                 emulator::of_bf16(column[(2 * t + i % 2) * 4 + lane], index);
    }
  }
}

inline u32 e4m3_to_bf16(u32 codes) {
  return __float_as_uint(from_e4m3(codes & 0xff)) >> 16 |
         (__float_as_uint(from_e4m3(codes >> 8 & 0xff)) & 0xffff0000);
}
