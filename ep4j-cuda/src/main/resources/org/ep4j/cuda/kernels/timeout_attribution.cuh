// Who has not entered a high-throughput operation that has failed.
//
// Which of its waits fails first is chance: it can be one for a rank that is itself only held up by the one that
// has not come. So the last block of a kernel that gave up looks at the words by which others say that they have
// entered, and names in the record who has not; then it marks the record as settled, which the host ignores
// before, and then it tells the host that the kernel has ended. If all have entered, what failed first stands.
//
// Who gave up in an earlier operation does not enter this one either. Of several ranks the one is named whose
// `ready` is the oldest: nobody gets past an operation that another has not entered, but for a combine that
// needs none of its rows, and who enters a combine says so by `ready`.
#pragma once
#include "internode_transport.cuh"
#include "protocol.cuh"

// Where this rank sees who has entered; `ready` and counts lie in its region.
struct EntrySignals {
  char* const* peers;  // [ranks] null: gone, or of another node
  u64 rank;
  u64 ranks;
  u64 ready_offset;
  u64 counts_offset;  // 0: `ready` tells
  u64 count_words;    // of a rank
  // Ranks of other nodes have entered once `counts_published` has reached `published_rounds`; null: nothing tells.
  const u64* counts_published;
  u64 published_rounds;
  const u32* node_of;  // [ranks], where `counts_published` is
  const InternodeTransport* transport;  // whose counters `counts_published` are
};

// One thread of the last block, after fail_wait(). `entries()` tells where to look.
template <class EntrySource>
__device__ __noinline__ void attribute_timeout(const WaitContext& w, EntrySource entries) {
  EntrySignals e = entries();
  const char* region = (const char*)w.control;
  // What is evicted is itself the one that is missing.
  u64 ranks = is_fenced(w) ? 0 : e.ranks;
  u64 oldest = ~0ull;
  for (u64 r = 0; r < ranks; r++) {
    u64 age = load_relaxed_system((const u64*)(region + e.ready_offset) + r);
    u64 expected = w.epoch;
    u64 seen = age;
    if (e.peers[r] == nullptr) {
      if (e.counts_published == nullptr || e.node_of[r] == NO_NODE) {
        continue;
      }
      // How long it is missing is not known: ranks of this node come first.
      age = ~0ull - 1;
      expected = e.published_rounds;
      seen = count_relaxed(*e.transport, &e.counts_published[r]);
    } else if (e.counts_offset != 0) {
      u64 word = load_relaxed_system((const u64*)(region + e.counts_offset) + r * e.count_words);
      seen = tag_is(word, w.epoch) ? w.epoch : word >> 32;
    }
    if (r != e.rank && seen < expected && age < oldest) {
      oldest = age;
      w.record->phase = PHASE_ENTER;
      w.record->peer = r;
      w.record->expected = expected;
      w.record->seen = seen;
    }
  }
  // Also where a bad routing was told after the failure.
  w.record->state = STATE_TIMEOUT;
  // Of an earlier operation, if that has failed already.
  store_release_system(&w.record->attributed_epoch, w.record->epoch);
}
