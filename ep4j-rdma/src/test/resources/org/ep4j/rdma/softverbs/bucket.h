// The bandwidth of a cable as a token bucket on any clock: the time until which the bytes so far
// keep it busy. Bytes may be taken ahead of the clock by a burst.
#pragma once

#include <atomic>
#include <cstdint>

namespace soft {

constexpr int64_t BURST = 100000;  // ns

// Whether bytes can be taken at `now`; if not, `retry` is when to ask again.
inline bool ready(const std::atomic<int64_t>& busyUntil, int64_t now, int64_t& retry) {
  retry = busyUntil.load() - BURST;
  return retry <= now;
}

// Takes bytes at `now`; returns the time at which the last of them has passed. A rate of 0 has no
// limit.
inline int64_t take(std::atomic<int64_t>& busyUntil, int64_t now, int64_t bytes,
                    int64_t bytesPerSecond) {
  if (bytesPerSecond == 0) {
    return now;
  }
  auto cost = static_cast<int64_t>(static_cast<double>(bytes) * 1e9 /
                                   static_cast<double>(bytesPerSecond));
  int64_t busy = busyUntil.load();
  int64_t until;
  do {
    until = (busy > now ? busy : now) + cost;
  } while (!busyUntil.compare_exchange_weak(busy, until));
  return until;
}

}  // namespace soft
