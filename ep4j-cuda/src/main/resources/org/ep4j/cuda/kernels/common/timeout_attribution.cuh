// Timeout attribution: names the rank that has not entered a failed high-throughput operation.
//
// Which wait fails first is chance: it can be a wait for a rank that itself waits for the missing
// rank. So the last block of an aborted kernel reads the words that show which ranks have entered
// and writes the missing one into the record. Order: record, then `attributed_epoch` (the host
// ignores the record before), then the ticket. If all ranks have entered, the first failure stands.
//
// A rank that aborted an earlier operation does not enter this one either. Of several missing
// ranks, the record names the one with the oldest `ready`: no rank gets past an operation that
// another rank has not entered, except for a combine that needs none of its rows; and a rank that
// enters a combine sets `ready`.
#pragma once
#include "internode/internode_transport.cuh"
#include "common/protocol.cuh"

// The words that show this rank which peers have entered; `ready` and counts lie in its region.
struct EntrySignals {
  char* const* peers;  // [ranks] null: missing, or on another node
  u64 rank;
  u64 ranks;
  u64 ready_offset;
  u64 counts_offset;  // 0: `ready` is the signal
  u64 count_words;    // words of one rank
  // Ranks of other nodes have entered once `counts_published` has reached `published_rounds`; null:
  // no such signal.
  const u64* counts_published;
  u64 published_rounds;
  const u32* node_of;  // [ranks], if `counts_published` is set
  const InternodeTransport* transport;  // owner of the counters `counts_published`
};

// One thread of the last block, after fail_wait(). `entries()` returns the words to read.
template <class EntrySource>
__device__ __noinline__ void attribute_timeout(const WaitContext& w, EntrySource entries) {
  EntrySignals e = entries();
  const char* region = (const char*)w.control;
  // A fenced rank is itself the missing one, so it names no peer.
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
      // The time since its last entry is unknown: ranks of this node take precedence.
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
  // Also overwrites a bad routing that was reported after the failure.
  w.record->state = STATE_TIMEOUT;
  // The epoch of an earlier operation, if that one failed.
  store_release_system(&w.record->attributed_epoch, w.record->epoch);
}
