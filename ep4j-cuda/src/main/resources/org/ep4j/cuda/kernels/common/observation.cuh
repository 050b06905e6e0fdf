// What kernels count for org.ep4j.ExpertBuffer.observe(): for how long operations of this rank have waited
// for each rank, and the tokens of its experts.
//
// Words behind Control in this rank's region; no peer accesses them:
//   waited[r]  nanoseconds waited for rank r since the buffer was opened or reset; for this rank, whose blocks
//              wait for each other, without meaning. Writers: the witnesses, atomic addition
//   tokens[l]  tokens that dispatches have brought to local expert l since the buffer was opened. Writer:
//              one thread of each dispatch, atomic addition
// Reader: the last block of an operation that completes a window, relaxed. Neither needs an order: both only
// grow, and what a block adds too late for a window counts in the next one.
//
// A wait counts if its first poll does not find the word: a wait for a word that is there costs nothing. Of
// the many threads that wait for a rank, one at a time is the witness: in block 0 the first warp that has
// nothing left to do but wait, at the end a thread of the last block. So waits for a rank never overlap, and
// their sum is at most the time of the operation.
//
// Words in mapped host memory, from Control::windows on: ObservedWindows, then WINDOWS records of a window:
// the time of its end, rows received by then, and the words behind Control. Window n is in place n % WINDOWS.
// Writer of a record: the last block of the operation that completes the window; it does not wait until the
// host can see the record. Writer of `complete`: the last block of the next operation, release. Reader: the
// host, acquire; it reads `complete` again afterwards, because the kernels do not wait for it
// (org.ep4j.cuda.engine.context.KernelObservations).
#pragma once
#include "common/batched_loads.cuh"
#include "structs/control.cuh"
#include "structs/observed_windows.cuh"

constexpr u64 WINDOW = 20;  // operations of a window, org.ep4j.observe.ObservationLog.WINDOW
constexpr u64 WINDOWS = 12;

// Words of a record before those behind Control.
enum ObservedWindow { WINDOW_ENDED, WINDOW_ROWS, WINDOW_WORDS };

__device__ __forceinline__ u64* observed_words(Control* control) { return (u64*)(control + 1); }

// The witness has waited for a rank since `since`.
__device__ __forceinline__ void charge_wait(Control* control, u64 rank, u64 since) {
  atomicAdd(observed_words(control) + rank, nanoseconds() - since);
}

// A dispatch has brought tokens to a local expert.
__device__ __forceinline__ void count_tokens(Control* control, u64 ranks, u32 local, u32 tokens) {
  atomicAdd(observed_words(control) + ranks + local, (u64)tokens);
}

// One warp; all lanes with the same values, as in count_operation.
__device__ __noinline__ void write_window(Control* control, u64 number) {
  ObservedWindows* windows = control->windows;
  if (windows == nullptr) {
    return;
  }
  u32 words = (u32)control->observed_words;
  u64* record = (u64*)(windows + 1) + number % WINDOWS * (WINDOW_WORDS + words);
  if (is_first_lane()) {
    store_relaxed_system(&record[WINDOW_ENDED], nanoseconds());
    store_relaxed_system(&record[WINDOW_ROWS], load_relaxed_system(&control->rows_received));
  }
  const u64* observed = observed_words(control);
  for_each_loaded(
      words, lane_id(), 32, [&](u32 i) { return load_relaxed_system(&observed[i]); },
      [&](u32 i, u64 value) { store_relaxed_system(&record[WINDOW_WORDS + i], value); });
}

// `complete`: windows whose records earlier operations have written; 0 after the first operation, at whose
// end windows begin. One thread.
__device__ __noinline__ void report_windows(Control* control, u64 complete) {
  ObservedWindows* windows = control->windows;
  if (windows == nullptr) {
    return;
  }
  if (complete == 0) {
    store_relaxed_system(&windows->began, nanoseconds());
  } else {
    store_release_system(&windows->complete, complete);
  }
}

// Counts an operation; `before`: Control::operations. The first warp of the last block.
__device__ __forceinline__ void count_operation(Control* control, u64 before) {
  u64 ended = before + 1;
  u64 place = ended % WINDOW;
  if (place == 0) {
    write_window(control, before / WINDOW);
  } else if (place == 1 && is_first_lane()) {
    report_windows(control, before / WINDOW);
  }
  __syncwarp();
  if (is_first_lane()) {
    control->operations = ended;
  }
}
