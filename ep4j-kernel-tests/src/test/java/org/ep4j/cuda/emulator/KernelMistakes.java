package org.ep4j.cuda.emulator;

import java.util.stream.Stream;

/** Mistakes in kernels that the worlds must find. */
final class KernelMistakes {
  /** Failures of the worlds that put. */
  private static final String WRONG_BLOCK = "from rank|the result";

  private static final String LOST_COMMANDS = "commands were read, \\d+ wait, \\d+ were accepted";

  private KernelMistakes() {}

  /**
   * A mistake in one place.
   *
   * @param what the effect of the mistake
   * @param world the world that finds it
   * @param first the first case, fixed: near a case that finds the mistake where those are rare
   * @param from the correct text, which occurs once in the file
   * @param to its replacement
   * @param said pattern of the report of the first case that fails
   */
  record Mistake(
      String what, String world, long first, String file, String from, String to, String said) {
    Mistake(String what, String world, String file, String from, String to, String said) {
      this(what, world, 1, file, from, to, said);
    }

    @Override
    public String toString() {
      return what;
    }
  }

  /** All of them. */
  static Stream<Mistake> all() {
    return Stream.of(
        new Mistake(
            "rows are sent although those of some rank lack room",
            "dispatch_world",
            "dispatch/totals.cuh",
            "slots.limit[d] = 0;",
            "",
            "though the dispatch is refused|route of a refused dispatch"),
        new Mistake(
            "a refused dispatch awaits rows",
            "dispatch_world",
            "dispatch/totals.cuh",
            "slots.arriving[d] = 0;",
            "",
            "HANG\\nrank \\d+, EXPERT_MAJOR dispatch"),
        new Mistake(
            "rows of a slot are miscounted: tokens get rows of other tokens",
            "internode_world",
            "internode/internode_sum.cuh",
            "+= rounded() ? 1 :",
            "+= rounded() ? 0 :",
            "the sum of token"),
        new Mistake(
            "the same in the order of experts",
            "internode_world",
            "internode/sum_expert_rows.cuh",
            "taken[nodes[round]] += of_node[round];",
            "taken[nodes[round]] += 1;",
            "the sum of token"),
        new Mistake(
            "between nodes, a combine by experts adds in the opposite order",
            "internode_world",
            "internode/sum_expert_rows.cuh",
            "before[round] += id < choices.ids[round] ||",
            "before[round] += id > choices.ids[round] ||",
            "the sum of token"),
        new Mistake(
            "rows of tokens that do not go to a node are sent there",
            "internode_world",
            "internode/internode_slots.cuh",
            "Record::keep_none(p, place_of(q, first + lane_id()));",
            "",
            "the sum of token"),
        new Mistake(
            "rows that their holder has given up are sent to another node",
            "internode_hasty_rank_world",
            80,
            "internode/return_expert_rows.cuh",
            "load_relaxed_system(places_of(p, (u32)p.rank, r)) == WITHDRAWN",
            "false",
            "the sum of token"),
        new Mistake(
            "an overflow names a number of rows that does not suffice for all ranks",
            "dispatch_world",
            "dispatch/totals.cuh",
            "max_needed == largest ? overflow_rank",
            "max_needed > 0 ? overflow_rank",
            "rank without room"),
        new Mistake(
            "made once: `done` is published before receiving blocks have read the counts",
            "dispatch_world",
            "dispatch/expert_push.cuh",
            "== gridDim.x - 1;",
            "== p.push_blocks - 1;",
            "(?s)HANG.*counts \\+ "),
        new Mistake(
            "rows of equal ids aside, a combine by experts adds in the opposite order",
            "combine_world",
            "combine/pull_expert_rows.cuh",
            "before[round] += id < ids[round] || equal;",
            "before[round] += id > ids[round] || equal;",
            "the sum of token"),
        new Mistake(
            "a pulled sum of a rank ends a row too early",
            "combine_world",
            "combine/pull_expert_rows.cuh",
            "last[round] && !(id > ids[round] && entry >> 32 == entries[round] >> 32);",
            "last[round] && true;",
            "the sum of token"),
        new Mistake(
            "a low-latency combine by experts adds in the order of choices",
            "low_latency_world",
            "lowlatency/low_latency_combine.cu",
            "k = choice_by_expert(p, token, k);",
            "k += 0;",
            "the sum of token"),
        new Mistake(
            "a combine waits for rows that are not pushed",
            "combine_world",
            "combine/combine.cu",
            "if (!is_local_input(p, route)) {",
            "if (true) {",
            "(?s)HANG.*groups"),
        new Mistake(
            "a combine returns while its rows are read",
            "combine_world",
            "combine/row_places.cuh",
            "wait_epoch(w, (const u64*)(p.peers[p.rank] + p.done_offset) + r, PHASE_ROWS, r, true);",
            "",
            "the sum of token"),
        new Mistake(
            "a combine that pushes ends before all blocks know where rows lie",
            "combine_world",
            "combine/row_places.cuh",
            "if (decision != FAILED) {",
            "if (decision == PULL) {",
            "HANG|the sum of token|at a bad address"),
        new Mistake(
            "a slot is filled before it has been read",
            "combine_world",
            "combine/pull_rows.cuh",
            "if (i > 0) {",
            "if (false) {",
            "HANG|the sum of token"),
        new Mistake(
            "a slot of experts' rows is filled before it has been read",
            "combine_world",
            "combine/bring_expert_rows.cuh",
            "if (i > 0) {",
            "if (false) {",
            "HANG|the sum of token"),
        new Mistake(
            "a group of sums is announced with the first piece of its last row",
            "combine_world",
            "combine/bring_expert_rows.cuh",
            "job.ends_group = ends_group && at + piece == columns;",
            "job.ends_group = ends_group && at == 0;",
            "HANG|the sum of token"),
        new Mistake(
            "words of groups are overwritten before they are raised",
            "combine_world",
            "combine/push_notices.cuh",
            ">= NOTICES) {",
            ">= 2 * NOTICES) {",
            "HANG|the sum of token|expected"),
        new Mistake(
            "a warp that has sent begins its ring anew when it copies",
            "combine_world",
            "dispatch/expert_dispatch.cu",
            "(u32)p.row_bytes, loads);",
            "(u32)p.row_bytes, 0);",
            "HANG|row|ended before"),
        new Mistake(
            "rows that their holder has given up are summed",
            "many_ranks_world",
            "combine/row_places.cuh",
            "load_relaxed_system(places_of(p, (u32)p.rank, r)) == WITHDRAWN) {",
            "false) {",
            "HANG|failed"),
        new Mistake(
            "a rank that gives up does not withdraw its rows",
            "many_ranks_world",
            "combine/row_places.cuh",
            "withdraw_rows(p);",
            ";",
            "place at"),
        new Mistake(
            "made once: rows that are not pushed take up space in the return buffer",
            "combine_world",
            "dispatch/finish.cuh",
            "h == r ? 0 : p.matrix",
            "p.matrix",
            "at a bad address|the sum of token"),
        new Mistake(
            "the sum of own experts is not rounded as if it had travelled",
            "combine_world",
            "combine/add_expert_rows.cuh",
            "clear();\n      add<T>(columns, job.biases);",
            "job.own = 0;\n      add<T>(columns, job.biases);",
            "the sum of token"),
        new Mistake(
            "weights are saved in the order of choices, not of rows",
            "combine_world",
            "dispatch/expert_receive.cuh",
            "p.slot_weights[(u64)slot * p.top_k + before[round]]",
            "p.slot_weights[(u64)slot * p.top_k + choices[round]]",
            "the sum of token"),
        new Mistake(
            "pushed rows are not multiplied by their weights",
            "internode_world",
            "combine/push_return_rows.cuh",
            "add_input_rows<T, U, ROWS>(p, sum, rows, weights, count, first, (u32)p.columns);",
            "add_rows<T, T, U, ROWS>(sum, MemoryRows{rows}, count, first, (u32)p.columns);",
            "the sum of token"),
        new Mistake(
            "rows that are not pushed are read from the return buffer",
            "internode_world",
            "internode/internode_return_layout.cuh",
            "if (is_local_input(p, route)) {",
            "if (false) {",
            "the sum of token"),
        new Mistake(
            "a count of a routing continues behind the last expert, rank or node",
            "routing_counts_world",
            "dispatch/routing_counts.cu",
            "u32 count = min(KEYS, keys - first);",
            "u32 count = KEYS;",
            "beyond the end"),
        new Mistake(
            "experts of a call are the first of their rank",
            "dispatch_world",
            "dispatch/expert_ids.cu",
            "+ ((u64)id - rank * p.each)",
            "+ 0",
            "rank"),
        new Mistake(
            "sources do not tell the length of their rows",
            "low_latency_world",
            "lowlatency/low_latency.cuh",
            "return (u32)p.hidden / ROW_BLOCK << 16 | rows;",
            "return rows;",
            "rows of expert|rows of source"),
        new Mistake(
            "a row counts as complete when one of its packets has arrived",
            "low_latency_world",
            "lowlatency/ll_packets.cuh",
            "held[i].w == number",
            "true",
            "rank"),
        new Mistake(
            "made once: a rank that masked another one sent it an incomplete sum",
            "low_latency_world",
            500,
            "lowlatency/low_latency_push.cuh",
            "if (!__all_sync(0xffffffff, weights_arrived)) {",
            "if (false) {",
            "the sum of token"),
        new Mistake(
            "rows from other nodes are read before all of a group have arrived",
            "low_latency_mapped_world",
            "lowlatency/low_latency_groups.cuh",
            "__popc(ready) == units",
            "true",
            "of row|the sum of token"),
        new Mistake(
            "made once: a rank that has given up announces sums that it has not sent",
            "low_latency_mapped_world",
            5590,
            "lowlatency/low_latency_groups.cuh",
            "bool complete = !aborted(op.wait);",
            "bool complete = true;",
            "the sum of token"),
        new Mistake(
            "a rank announces sums that it has not sent to a rank of another node that it masked",
            "low_latency_mapped_world",
            210,
            "lowlatency/low_latency_groups.cuh",
            "(!op.p.masking || load_relaxed_system(&op.p.masks[r]) == 0)",
            "true",
            "the sum of token"),
        new Mistake(
            "ranks of other nodes that can be masked write into each other's rows",
            "low_latency_puts_world",
            "lowlatency/low_latency.cuh",
            "if (p.masking && is_internode(peer)) {",
            "if (false) {",
            "writes what is rank"),
        new Mistake(
            "rows for a masked rank of another node are overwritten before the wire has read them",
            "low_latency_puts_world",
            100,
            "lowlatency/low_latency_puts.cuh",
            "return op.p.masking ? op.internode_index(rank) : 0;",
            "return 0;",
            "byte of row|the sum of token"),
        new Mistake(
            "made once: a rank whose words have arrived is masked, as they were not imported in time",
            "low_latency_puts_world",
            30,
            "lowlatency/low_latency_waits.cuh",
            "bool relayed = is_relayed(op, phase, peer);",
            "bool relayed = false;",
            "mask"),
        new Mistake(
            "a rank that the wire reports as lost ends an operation that could mask it",
            "low_latency_puts_world",
            40,
            "lowlatency/low_latency_puts.cuh",
            "  if (op.p.masking) {\n    mask_rank",
            "  if (false) {\n    mask_rank",
            "state 1"),
        new Mistake(
            "a fenced rank of a buffer of several nodes writes to ranks of its node",
            "low_latency_mapped_world",
            "lowlatency/low_latency_end.cuh",
            "u64 why = exit_reason(op.p.control);",
            "u64 why = load_relaxed_system(&op.p.control->failed);",
            "a fenced rank writes"),
        new Mistake(
            "only as many ranks as a block has threads hear `done`",
            "many_ranks_world",
            "dispatch/finish.cuh",
            "!done_published && r < p.ranks; r += blockDim.x",
            "!done_published && r < p.ranks; r += p.ranks",
            "has not heard `done`"),
        new Mistake(
            "only as many ranks as a block has threads are awaited",
            "many_ranks_world",
            "dispatch/finish.cuh",
            "    if (is_live(p, r) && !aborted(w)) {",
            "    if (r < blockDim.x && is_live(p, r) && !aborted(w)) {",
            "has not waited for `done`"),
        new Mistake(
            "a cached dispatch forgets the rows of the ranks before this one",
            "dispatch_world",
            "dispatch/layout.cuh",
            "matrix_row(p, ROW_BEFORE)[r] + first;",
            "first;",
            "row \\d+|slot"),
        new Mistake(
            "ranks that share a warp add up each other's groups",
            "dispatch_world",
            "dispatch/expert_layout.cuh",
            "end += lane >= step ? before : 0;\n    }\n    end += start;",
            "end += lane_id() >= step ? before : 0;\n    }\n    end += start;",
            "row|rows|group"),
        new Mistake(
            "each block charges its own wait for a late rank",
            "observation_world",
            "dispatch/layout.cuh",
            "bool witness = blockIdx.x == 0 && word == 0;",
            "bool witness = word == 0;",
            "has waited"),
        new Mistake(
            "windows are written one operation late",
            "observation_world",
            "common/observation.cuh",
            "u64 place = ended % WINDOW;",
            "u64 place = before % WINDOW;",
            "complete windows|word of a window"),
        new Mistake(
            "the relay and the reader of words both charge a wait",
            "low_latency_puts_observation_world",
            "lowlatency/low_latency_routing.cuh",
            "bool witness = blockIdx.x == 0 && l == 0 && !op.uses_puts(s);",
            "bool witness = blockIdx.x == 0 && l == 0;",
            "has waited"),
        new Mistake(
            "kernels wait for ranks that have closed their buffer",
            "many_ranks_world",
            "common/protocol.cuh",
            "(writer != NO_WRITER && load_acquire_system(w.host_abort + 1 + writer) != 0)",
            "false",
            "(?s)HANG.*cached dispatch"),
        new Mistake(
            "fenced ranks do not check the fence",
            "stale_rank_fence_world",
            "common/kernel_lifecycle.cuh",
            "| load_relaxed_system(&control->fenced_by)",
            "",
            "a fenced rank writes"),
        new Mistake(
            "a fence does not wait for a kernel that has already checked it",
            "stale_rank_fence_world",
            "common/kernel_lifecycle.cuh",
            "store_relaxed_system(&control->running, 1);",
            "",
            "a fenced rank writes"),
        new Mistake(
            "the record names the peer of the first failed wait",
            "timeout_attribution_world",
            "common/timeout_attribution.cuh",
            "      w.record->peer = r;\n",
            "",
            "named rank"),
        new Mistake(
            "the record names a rank that aborted an earlier operation",
            "internode_timeout_attribution_world",
            400,
            "common/timeout_attribution.cuh",
            " && age < oldest",
            "",
            "named rank"),
        new Mistake(
            "a last block that starts after the failure does not attribute it",
            "timeout_attribution_world",
            "common/kernel_lifecycle.cuh",
            "end_epoch(w, receipt, entries);",
            "end_epoch(w, receipt, [] { return EntrySignals{}; });",
            "named rank|phase"),
        new Mistake(
            "counts from other nodes are ignored in timeout attribution",
            "internode_timeout_attribution_world",
            "internode/internode_counts.cuh",
            "p.cached ? nullptr : p.internode->counts_published",
            "nullptr",
            "named rank|phase"),
        new Mistake(
            "made once: a warp whose wait fails leaves while its stores are in flight",
            "internode_timeout_attribution_world",
            "internode/internode_slots.cuh",
            "schedule.chunks[g] && !slots.forward(q, slots.world.taken[q] + c)) {\n      break;",
            "schedule.chunks[g] && !slots.forward(q, slots.world.taken[q] + c)) {\n      return;",
            "ended before its bulk stores"),
        new Mistake(
            "a fenced rank acknowledges an operation",
            "low_latency_world",
            "lowlatency/low_latency_end.cuh",
            "    parts[r] = nullptr;",
            "",
            "(?s)(?=.*a fenced rank writes).*received"),
        new Mistake(
            "puts overtake each other: an add arrives before the rows that it counts",
            "low_latency_puts_world",
            "lowlatency/low_latency_puts.cuh",
            "parity_count(op) * ALL_ROWS, seen",
            "1, seen",
            "FAILED"),
        new Mistake(
            "words of the previous lap count as new commands",
            "proxy_world",
            "transport/command_ring.cuh",
            "(ticket & rings.capacity) == 0 ?",
            "true ?",
            LOST_COMMANDS),
        new Mistake(
            "a warp overwrites a command that the host has not read",
            "proxy_world",
            "transport/command_ring.cuh",
            "end <= tail + rings.capacity",
            "end <= tail + 2 * rings.capacity",
            LOST_COMMANDS),
        new Mistake(
            "one lane signals before the others have stored",
            "put_stores_world",
            "transport/device_put.cuh",
            "stores of the other lanes.\n  __syncwarp();",
            "stores of the other lanes.",
            WRONG_BLOCK),
        new Mistake(
            "made once: lanes put bytes that other lanes have not written yet",
            "put_stores_world",
            "transport/device_put.cuh",
            "other lanes of the warp wrote.\n  __syncwarp();",
            "other lanes of the warp wrote.",
            WRONG_BLOCK),
        new Mistake(
            "a signal uses another lane of the wire than its puts",
            "put_rings_world",
            "transport/device_put.cuh",
            "add_command(peer, lane_of_ring(p, lane), number",
            "add_command(peer, 0, number",
            WRONG_BLOCK),
        new Mistake(
            "the source is overwritten while the wire reads it",
            "put_rings_world",
            "transport/device_put.cuh",
            "wanted = ++p.flushes[lane]",
            "wanted = p.flushes[lane]++",
            WRONG_BLOCK),
        new Mistake(
            "a slot is announced before it is put",
            "across_nodes_library",
            4, // case 3 takes what lies in the slot for numbers, and stores for very long
            "internode/internode.cuh",
            "!world.mapped && is_first_lane();",
            "!world.mapped && lane_id() == 2;",
            "FAILED"),
        new Mistake(
            "the library's own count of a signal is ignored",
            "across_nodes_library",
            "internode/internode_transport.cuh",
            "load_acquire_system(counter) + library_count(transport, counter)",
            "load_acquire_system(counter)",
            "HANG"),
        new Mistake(
            "words are read before the library has put them",
            "low_latency_library_world",
            "lowlatency/low_latency_puts.cuh",
            "parity_count(op) * ALL_ROWS, seen",
            "1, seen",
            "FAILED"));
  }
}
