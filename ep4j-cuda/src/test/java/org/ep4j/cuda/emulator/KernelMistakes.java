package org.ep4j.cuda.emulator;

import java.util.HashSet;
import java.util.Set;
import java.util.stream.Stream;

/** Mistakes in kernels that worlds have to find. */
final class KernelMistakes {
  /** Of worlds that put. */
  private static final String WRONG_BLOCK = "from rank|the result";

  private static final String LOST_COMMANDS = "commands were read, \\d+ wait, \\d+ were accepted";

  private KernelMistakes() {}

  /**
   * A mistake in one place.
   *
   * @param what is wrong
   * @param world that finds it
   * @param first case that is run, always the same: near one that finds it, where those are rare
   * @param from what the file holds once
   * @param to what is in its place
   * @param said pattern of what is printed of the first case that fails
   */
  record Mistake(
      String what, String world, long first, String file, String from, String to, String said) {
    Mistake(String what, String world, String file, String from, String to, String said) {
      this(what, world, 1, file, from, to, said);
    }

    /** What worlds of the same program have in common: the first word of their names. */
    String program() {
      return world.substring(0, world.indexOf('_'));
    }

    @Override
    public String toString() {
      return what;
    }
  }

  /**
   * All of them with {@code -Dep4j.full=true}; by default one for each program that worlds share,
   * which shows that what it checks can fail.
   */
  static Stream<Mistake> tried() {
    Set<String> programs = new HashSet<>();
    return all()
        .filter(mistake -> Boolean.getBoolean("ep4j.full") || programs.add(mistake.program()));
  }

  private static Stream<Mistake> all() {
    return Stream.of(
        new Mistake(
            "rows of a slot are counted wrongly: tokens get those of others",
            "internode_world",
            "internode_sum.cuh",
            "+= rounded() ? 1 :",
            "+= rounded() ? 0 :",
            "the sum of token"),
        new Mistake(
            "rows that stay where they are are awaited",
            "combine_world",
            "combine.cu",
            "if (!is_local_input(p, route)) {",
            "if (true) {",
            "(?s)HANG.*groups"),
        new Mistake(
            "made once: rows that stay have a place at home, behind which the others lie",
            "combine_world",
            "return_layout.cuh",
            "h == r ? 0 : p.matrix[r * p.ranks + h]",
            "p.matrix[r * p.ranks + h]",
            "at a bad address|the sum of token"),
        new Mistake(
            "what own experts give is not rounded as if it had travelled",
            "combine_world",
            "expert_combine.cu",
            "if constexpr (H::ELEMENTS == E) {",
            "if constexpr (H::ELEMENTS > E) {",
            "the sum of token"),
        new Mistake(
            "rows that stay where they are are looked for at home",
            "internode_world",
            "internode_return_layout.cuh",
            "if (is_local_input(p, route)) {",
            "if (false) {",
            "the sum of token"),
        new Mistake(
            "a row is taken for whole because one of its lines is there",
            "low_latency_world",
            "ll_packets.cuh",
            "held[i].w == number",
            "true",
            "rank"),
        new Mistake(
            "made once: a rank that masked another told it the sum of what it had",
            "low_latency_world",
            500,
            "low_latency_push.cuh",
            "if (!__all_sync(0xffffffff, weights_arrived)) {",
            "if (false) {",
            "the sum of token"),
        new Mistake(
            "rows from other nodes are read before all of a group are there",
            "low_latency_mapped_world",
            "low_latency_groups.cuh",
            "__popc(ready) == units",
            "true",
            "of row|the sum of token"),
        new Mistake(
            "evicted ranks do not look whether they are",
            "stale_rank_fence_world",
            "kernel_lifecycle.cuh",
            "| load_relaxed_system(&control->fenced_by)",
            "",
            "it is evicted, and writes"),
        new Mistake(
            "the others do not wait for a kernel that has looked already",
            "stale_rank_fence_world",
            "kernel_lifecycle.cuh",
            "store_relaxed_system(&control->running, 1);",
            "",
            "it is evicted, and writes"),
        new Mistake(
            "whatever wait has failed first is told",
            "timeout_attribution_world",
            "timeout_attribution.cuh",
            "      w.record->peer = r;\n",
            "",
            "named rank"),
        new Mistake(
            "who gave up in an operation before is named",
            "timeout_attribution_world",
            "timeout_attribution.cuh",
            " && age < oldest",
            "",
            "named rank"),
        new Mistake(
            "a last block that came after the failure does not look",
            "timeout_attribution_world",
            "kernel_lifecycle.cuh",
            "end_epoch(w, receipt, entries);",
            "end_epoch(w, receipt, [] { return EntrySignals{}; });",
            "named rank|phase"),
        new Mistake(
            "nobody looks whose counts have come from other nodes",
            "internode_timeout_attribution_world",
            "internode_counts.cuh",
            "p.cached ? nullptr : p.internode->counts_published",
            "nullptr",
            "named rank|phase"),
        new Mistake(
            "made once: a warp whose wait fails leaves while its stores are in flight",
            "internode_timeout_attribution_world",
            "internode_slots.cuh",
            "schedule.chunks[g] && !slots.forward(q, slots.world.taken[q] + c)) {\n      break;",
            "schedule.chunks[g] && !slots.forward(q, slots.world.taken[q] + c)) {\n      return;",
            "ended before its bulk stores"),
        new Mistake(
            "what has failed says that it has received",
            "low_latency_world",
            "low_latency_end.cuh",
            "    parts[r] = nullptr;",
            "",
            "(?s)(?=.*it is evicted, and writes).*received"),
        new Mistake(
            "puts overtake each other: an add comes before the rows that it counts",
            "low_latency_puts_world",
            "low_latency_puts.cuh",
            "parity_count(op) * ALL_ROWS, seen",
            "1, seen",
            "FAILED"),
        new Mistake(
            "words of the lap before are taken for new commands",
            "proxy_world",
            "command_ring.cuh",
            "(ticket & rings.capacity) == 0 ?",
            "true ?",
            LOST_COMMANDS),
        new Mistake(
            "a warp takes a place that the host has not read yet",
            "proxy_world",
            "command_ring.cuh",
            "end <= tail + rings.capacity",
            "end <= tail + 2 * rings.capacity",
            LOST_COMMANDS),
        new Mistake(
            "one lane signals before the others have stored",
            "put_stores_world",
            "device_put.cuh",
            "what the others stored.\n  __syncwarp();",
            "what the others stored.",
            WRONG_BLOCK),
        new Mistake(
            "made once: lanes put what others of the warp have not written yet",
            "put_stores_world",
            "device_put.cuh",
            "the warp have written.\n  __syncwarp();",
            "the warp have written.",
            WRONG_BLOCK),
        new Mistake(
            "a signal goes by another lane of the wire than its puts",
            "put_rings_world",
            "device_put.cuh",
            "add_command(peer, lane_of_ring(p, lane), number",
            "add_command(peer, 0, number",
            WRONG_BLOCK),
        new Mistake(
            "the source is written anew while the wire reads it",
            "put_rings_world",
            "device_put.cuh",
            "wanted = ++p.flushes[lane]",
            "wanted = p.flushes[lane]++",
            WRONG_BLOCK),
        new Mistake(
            "a slot is told of before the library is given it",
            "internode_library_world",
            "internode.cuh",
            "!world.mapped && lane_id() == 0;",
            "!world.mapped && lane_id() == 2;",
            "FAILED"),
        new Mistake(
            "what a library counts apart from its words does not count",
            "internode_library_world",
            "internode_transport.cuh",
            "load_acquire_system(counter) + library_count(transport, counter)",
            "load_acquire_system(counter)",
            "HANG"),
        new Mistake(
            "words are looked at before the library has put them",
            "low_latency_library_world",
            "low_latency_puts.cuh",
            "parity_count(op) * ALL_ROWS, seen",
            "1, seen",
            "FAILED"));
  }
}
