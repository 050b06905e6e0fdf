// Low-latency operations on all ranks of a world: parameters of the kernels, and the checks of the
// results.
#pragma once
#include <optional>
#include <set>
#include "low_latency_deliveries.hpp"
#include "low_latency_region.hpp"
#include "low_latency_wire.hpp"

namespace emulator {

// State of a rank's operation: needed to receive what it has sent, and to combine what it received.
struct LatencyCall {
  LowLatencyParameters p;
  std::vector<int> cumulative;
  std::vector<u64> waits;
  std::vector<std::function<void(const RankSet&)>> inputs;  // to be filled once this is received
};

class LowLatencyCalls {
 public:
  // `hidden`: of the longest rows. Across nodes the world gets its nodes here, unless the program has
  // their sizes, and may lose one: see World::lose_node.
  LowLatencyCalls(Machine& machine, World& drawn, u64 seed, u32 hidden, bool masking)
      : masking(masking),
        machine(machine),
        random(machine.random),
        world(drawn),
        deliveries{world},
        at(world, hidden, masking) {
    Memory& memory = machine.memory;
    host_abort = memory.zeroed<u64>(1 + world.ranks, "host_abort", EVERYBODY);
    placement = memory.allocate<u32>(world.experts, "placement", EVERYBODY);
    for (u32 r = 0; r < world.ranks; r++) {
      // A node is a run of ranks.
      node.push_back(node_sizes.size() > 1    ? world.node[r]
                     : INTERNODE && r > 0 ? node[r - 1] + (random.once_in(2) ? 1 : 0)
                                          : 0);
      add_rank(r);
    }
    if (INTERNODE) {
      drawn.node = node;
      drawn.lose_node(seed);
    }
    for (u32 e = 0; e < world.experts; e++) {
      placement[e] = (world.gone[world.owner[e]] ? 0xffff : world.owner[e]) << 16 | world.local[e];
    }
#if EP4J_INTERNODE == EP4J_INTERNODE_PUTS
    wire = std::make_unique<LatencyWire>(machine, world, at, hidden, internode_parts);
    wire->start([this] { return runs(); });
#endif
    for (u32 r = 0; masking && INTERNODE && r < world.ranks; r++) {
      reserve_shares(r);
    }
    for (u32 r = 0; r < world.ranks; r++) {
      peers.push_back(memory.allocate<char*>(world.ranks, "peers", (int)r));
      for (u32 s = 0; s < world.ranks; s++) {
        peers[r][s] = world.gone[s] ? nullptr : node[r] == node[s] ? parts[s] : internode_parts[s];
      }
    }
  }

  u32 tile_tokens = 1;
  const bool masking;
  u64 timeout = PATIENT;
  std::vector<u64*> masks;
  std::vector<u64*> host_masks;
  std::vector<u64*> host_gone;
  std::vector<Control*> controls;
  std::vector<Record*> records;
  std::set<u32> fenced;
  std::set<u32> sleepers;
  std::optional<u32> silent;  // the only rank that is to be masked

  // From now on a rank that sleeps is a process that is stopped.
  void stop_processes() {
#if EP4J_INTERNODE == EP4J_INTERNODE_PUTS && EP4J_PUT_TRANSPORT != 2
    wire->stop_with_ranks();
#endif
  }

  // The wire reports that a dead rank is lost.
  void lose_wire(u32 r) {
#if EP4J_INTERNODE == EP4J_INTERNODE_PUTS && EP4J_PUT_TRANSPORT != 2
    wire->lose(r);
#endif
  }

  // Whether another rank can fence this one.
  bool can_be_fenced(u32 r) const { return std::count(node.begin(), node.end(), node[r]) > 1; }

  bool are_together(u32 r, u32 s) const { return node[r] == node[s]; }

  // A dispatch of one rank, received later if not `whole`.
  std::shared_ptr<LatencyCall> send(std::shared_ptr<LatencyDispatch> dispatch, u32 r, bool whole) {
    auto call = std::make_shared<LatencyCall>();
    LowLatencyParameters& p = call->p = constants(r);
    const Encoding& encoding = dispatch->encoding;
    p.hidden = encoding.hidden;
    u64 row_bytes = 2 * p.hidden;
    bool rank_major = dispatch->rank_major;
    u64 groups = deliveries.groups(rank_major, r);
    u64 rows = groups * deliveries.capacity(rank_major);
    u64 scales = rows * encoding.scale_bytes();
    if (dispatch->columns && scales > 0) {
      u32 unit = 16 / encoding.column_unit();
      p.scale_columns = (deliveries.capacity(rank_major) + unit - 1) / unit * unit;
      scales = groups * encoding.scale_bytes() * p.scale_columns;
    }
    p.kind = encoding.format;
    p.kind |= (rank_major ? 8 : 0) | (dispatch->weighted ? KIND_WEIGHTED : 0);
    p.weights = dispatch->weighted ? copy(dispatch->weights[r], "weights", r) : nullptr;
    p.tokens = dispatch->routing.tokens[r];
    p.top_k = dispatch->routing.top_k;
    give_ids(p, dispatch->routing.ids[r], r);
    p.x = (char*)copy(flat(dispatch->x[r]), "x", r);
    p.row_bytes = encoding.row_bytes();
    p.scale_bytes = encoding.scale_bytes();
    p.scale_kind = encoding.format > FP8_ROWS ? encoding.format - FP8_ROWS : 0;
    p.global_scale = encoding.global_scale == 1 ? nullptr : copy(std::vector<float>{encoding.global_scale}, "global scale", r);
    Memory& memory = machine.memory;
    p.choice_rows = memory.allocate<u32>(p.ranks * p.max_tokens * p.max_choices, "choice rows", (int)r);
    p.batches = memory.allocate<u32>(p.ranks, "batches", (int)r);
    p.choices = memory.allocate<u64>(p.max_tokens * p.max_choices, "choices", (int)r);
    p.rows = memory.allocate(rows * p.row_bytes, "rows", (int)r);
    p.scales = memory.allocate(scales, "scales", (int)r);
    p.source_tokens = memory.allocate<int>(rows, "source_tokens", (int)r);
    p.row_choices = memory.allocate<i64>(rows * p.top_k, "row_choices", (int)r);
    p.row_weights = memory.allocate<float>(rows * p.top_k, "row_weights", (int)r);
    p.ranges = memory.allocate<u64>(groups * (rank_major ? 1 : p.ranks), "ranges", (int)r);
    p.row_counts = memory.allocate<int>(groups, "row_counts", (int)r);
    add_statistics(*call, r);
    for (u32 i = 0; i < dispatch->routing.ids[r].size(); i++) {
      refusals[r] =
          refusals[r] || dispatch->routing.refused(r, i / (u32)p.top_k, i % (u32)p.top_k);
    }
    enqueue(r, p, whole ? SENDING | RECEIVING : SENDING, false, rank_major, [=, this] {
      std::fill_n((char*)p.x, p.tokens * row_bytes, (char)0xdd);
      if (whole) {
        check(*dispatch, r, *call);
      }
    });
    return call;
  }

  void receive(std::shared_ptr<LatencyDispatch> dispatch, u32 r, std::shared_ptr<LatencyCall> call) {
    enqueue(r, call->p, RECEIVING, false, dispatch->rank_major, [=, this] { check(*dispatch, r, *call); });
  }

  // A combine of one rank; `from` is its call of the dispatch.
  std::shared_ptr<LatencyCall> send(std::shared_ptr<LatencyCombine> combine, u32 r,
                                    std::shared_ptr<LatencyCall> from, bool whole) {
    auto call = std::make_shared<LatencyCall>();
    LowLatencyParameters& p = call->p = constants(r);
    p.tokens = from->p.tokens;
    p.top_k = from->p.top_k;
    p.hidden = from->p.hidden;
    u64 row_bytes = 2 * p.hidden;
    p.choice_rows = from->p.choice_rows;
    p.batches = from->p.batches;
    p.choices = from->p.choices;
    give_ids(p, combine->ids[r], r);
    p.weights = copy(combine->weights[r], "weights", r);
    if (combine->ordered) {
      give_order(p, *combine, r);
    }
    bool rank_major = combine->dispatch->rank_major;
    u64 rows = deliveries.groups(rank_major, r) * deliveries.capacity(rank_major);
    char* y = machine.memory.allocate(rows * row_bytes, "y", (int)r);
    p.x = y;
    from->inputs.push_back([=, this](const RankSet& members) { fill(*combine, r, members, y); });
    p.out = machine.memory.allocate(p.tokens * row_bytes, "out", (int)r);
    add_statistics(*call, r);
    enqueue(r, p, whole ? SENDING | RECEIVING : SENDING, true, rank_major, [=, this] {
      std::fill_n(y, rows * row_bytes, (char)0xdd);
      if (whole) {
        check(*combine, r, *call);
      }
    }, combine->mode);
    return call;
  }

  void receive(std::shared_ptr<LatencyCombine> combine, u32 r, std::shared_ptr<LatencyCall> call) {
    enqueue(r, call->p, RECEIVING, true, combine->dispatch->rank_major,
            [=, this] { check(*combine, r, *call); }, combine->mode);
  }

  // After all operations. With masks a slow rank may have missed its own deadline, or may find no
  // area that masked ranks do not write into.
  void check_end(u32 r) const {
    u64 state = records[r]->state;
    u64 peer = records[r]->peer;
    bool overflow_rank = records[r]->phase == PHASE_ENTER && masks[r][peer] != 0;
    expect(controls[r]->running, 0, "running", r);
    if (fenced.count(r) > 0) {
      return;
    }
    // Nothing has emptied its rings meanwhile.
    bool stopped = records[r]->phase == PHASE_ROOM && sleepers.count(r) > 0;
    if (masking && state == STATE_TIMEOUT && (peer == r || overflow_rank || stopped)) {
      return;
    }
    for (u32 s = 0; silent && s < world.ranks; s++) {
      expect(masks[r][s], s == *silent && !world.gone[s], "mask", r, s);
    }
    bool refused = state == STATE_NO_SUCH_EXPERT || state == STATE_DUPLICATE;
    if (state != 0 && !refused) {
      fail("rank %u: state %llu, phase %llu, peer %llu", r, state, records[r]->phase,
           records[r]->peer);
    }
    expect(refused, refusals[r], "refused choices", r);
    expect(*completed[r], tickets[r], "ticket", r);
  }

  RankSet members(u32 r) const {
    RankSet members(world.ranks);
    for (u32 s = 0; s < world.ranks; s++) {
      members[s] = !world.gone[s] && masks[r][s] == 0;
      expect(masks[r][s], host_masks[r][s], "mask", r, s);
    }
    return members;
  }

 private:
  // Whether a rank has yet to end an operation. A rank that sleeps forever ends none.
  bool runs() const {
    for (u32 r = 0; r < world.ranks; r++) {
      if (!machine.is_dead(r) && (machine.has_waiting(r) || !machine.is_idle(r))) {
        return true;
      }
    }
    return false;
  }

  Machine& machine;
  Random& random;
  const World& world;
  Deliveries deliveries;
  LatencyRegion at;
  std::vector<u32> node;  // [ranks]
  std::vector<char*> parts;
  std::vector<u64*> internode_states;
  std::vector<char*> internode_parts;  // written by ranks of other nodes
  std::vector<char**> peers;
#if EP4J_INTERNODE == EP4J_INTERNODE_PUTS
  std::unique_ptr<LatencyWire> wire;
#endif
  std::vector<u64*> waited;
  std::vector<u64*> acknowledged;
  std::vector<u64*> completed;
  std::vector<u64> tickets;
  std::vector<bool> refusals;  // by rank: some operation must have reported a refusal
  std::vector<RankSet> masked_before;  // by rank: the ranks that it had masked when its last kernel ended
  u64* host_abort;
  u32* placement;

  void add_rank(u32 r) {
    Memory& memory = machine.memory;
    std::string name = " of rank " + std::to_string(r);
    char* part = memory.allocate(at.bytes, "part" + name, EVERYBODY);
    at.prepare(memory, part);
    parts.push_back(part);
    machine.belongs(r, part, at.bytes);
    char* internode_part = memory.allocate(at.internode_bytes, "internode part" + name, EVERYBODY);
    at.prepare_internode(memory, internode_part);
    internode_parts.push_back(internode_part);
    internode_states.push_back(
        memory.zeroed<u64>(world.ranks + GROUPS * UNITS, "internode state" + name, (int)r));
    // Behind the control words: waits by rank, tokens by local expert.
    size_t control_bytes = sizeof(Control) + (world.ranks + world.experts) * 8;
    controls.push_back((Control*)memory.zeroed<char>(control_bytes, "control" + name, (int)r));
    records.push_back(memory.zeroed<Record>(1, "record" + name, (int)r));
    completed.push_back(memory.zeroed<u64>(1, "completed" + name, (int)r));
    masks.push_back(memory.zeroed<u64>(world.ranks, "masks" + name, (int)r));
    waited.push_back(memory.zeroed<u64>(world.ranks, "waited" + name, (int)r));
    acknowledged.push_back(memory.zeroed<u64>(world.ranks, "acknowledged" + name, (int)r));
    host_masks.push_back(memory.zeroed<u64>(world.ranks, "host_masks" + name, (int)r));
    host_gone.push_back(memory.zeroed<u64>(world.ranks, "host_gone" + name, (int)r));
    tickets.push_back(0);
    refusals.push_back(false);
    masked_before.push_back(RankSet(world.ranks));
  }

  // What ranks of other nodes write late changes nothing that is another rank's.
  void reserve_shares(u32 r) {
    for (u32 w = 0; w < world.ranks; w++) {
      for (u32 i = 0; i < 2 && node[w] != node[r]; i++) {
        char* area = internode_parts[r] + i * at.internode_area_bytes;
        machine.reserve(w, area + at.headers + w * at.source_bytes, at.source_bytes);
        machine.reserve(w, area + at.rows + w * at.share_bytes, at.share_bytes);
      }
    }
  }

  LowLatencyParameters constants(u32 r) {
    LowLatencyParameters p{};
    p.peers = peers[r];
    p.own = parts[r];
    p.internode_part = internode_parts[r];
    p.node_first = (u64)(std::find(node.begin(), node.end(), node[r]) - node.begin());
    p.node_ranks = (u64)std::count(node.begin(), node.end(), node[r]);
    p.source_bytes = at.source_bytes;
    p.packed_offset = at.packed;
    p.units_offset = at.units;
    p.internode_area_bytes = at.internode_area_bytes;
    p.share_bytes = at.share_bytes;
    p.internode_state = internode_states[r];
#if EP4J_INTERNODE == EP4J_INTERNODE_PUTS
    p.puts = wire->puts(r);
#endif
    p.rank = r;
    p.ranks = world.ranks;
    p.experts = world.experts;
    p.local_experts = world.locals[r];
    p.placement = placement;
    p.max_tokens = world.max_tokens;
    p.max_choices = world.max_choices;
    p.received_offset = at.received;
    p.headers_offset = at.headers;
    p.counts_offset = at.counts;
    p.count_stride = at.count_stride;
    p.entries_offset = at.entries;
    p.weights_offset = at.weights;
    p.flags_offset = at.flags;
    p.flag_stride = at.flag_stride;
    p.rows_offset = at.rows;
    p.packets_offset = at.packets;
    p.area_bytes = at.area_bytes;
    p.control = controls[r];
    p.masks = masks[r];
    p.waited = waited[r];
    p.acknowledged = acknowledged[r];
    p.masking = masking;
    p.host_masks = host_masks[r];
    p.host_gone = host_gone[r];
    p.tile_tokens = tile_tokens;
    p.timeout = timeout;
    p.record = records[r];
    p.host_abort = host_abort;
    return p;
  }

  void give_ids(LowLatencyParameters& p, const std::vector<i64>& ids, u32 r) {
    p.wide_ids = random.once_in(2);
    p.ids = p.wide_ids ? (void*)copy(ids, "ids", r)
                       : copy(std::vector<int>(ids.begin(), ids.end()), "ids", r);
  }

  void give_order(LowLatencyParameters& p, const LatencyCombine& combine, u32 r) {
    std::vector<i64> ids;
    for (i64 id : combine.ids[r]) {
      ids.push_back(combine.dispatch->routing.order_of(id));
    }
    p.wide_order_ids = random.once_in(2);
    p.order_ids = p.wide_order_ids ? (void*)copy(ids, "order ids", r)
                                   : copy(std::vector<int>(ids.begin(), ids.end()), "order ids", r);
  }

  void add_statistics(LatencyCall& call, u32 r) {
    for (u32 l = 0; l < world.locals[r]; l++) {
      call.cumulative.push_back((int)random.below(100));
    }
    for (u32 s = 0; s < world.ranks; s++) {
      call.waits.push_back(random.below(100));
    }
    call.p.cumulative = random.once_in(2) ? copy(call.cumulative, "cumulative", r) : nullptr;
    call.p.waits = random.once_in(2) ? copy(call.waits, "waits", r) : nullptr;
  }

  void enqueue(u32 r, LowLatencyParameters p, u64 phases, bool combines, bool rank_major,
               std::function<void()> then, CombineMode mode = MODE_CHOICES) {
    p.phases = phases;
    // As if a graph replayed some of them: their end has no ticket.
    p.receipt = Receipt{random.once_in(3) ? 0ull : ++tickets[r], completed[r]};
    if (!(phases & RECEIVING)) {
      p.cumulative = nullptr;
      p.waits = nullptr;
    }
    Launch launch;
    launch.name = std::string(combines ? "combine " : "dispatch ") + std::to_string(tickets[r]) +
                  (phases == SENDING ? ", sending" : phases == RECEIVING ? ", receiving" : "");
    launch.blocks = random.between(1, world.blocks(3));
    launch.threads = WARPS * LANES;
    launch.rank_major = rank_major;
    u64 tables = 6 * p.ranks + p.experts + 2 + (p.local_experts + rank_major) * (p.ranks + 1);
    u64 marked = p.experts + (rank_major || PUTS ? p.ranks : 0);
    u64 tile_words = marked * (1 + (tile_tokens + 31) / 32) + tile_tokens * p.top_k;
    launch.shared_bytes = combines ? p.ranks * 20 : 4 * (tables + tile_words);
    launch.body = combines ? combine_body(p, mode) : dispatch_body(p);
    launch.then = [this, then, r] {
      then();
      for (u32 s = 0; s < world.ranks; s++) {
        masked_before[r][s] = masks[r][s] != 0;
      }
    };
    machine.enqueue(r, std::move(launch));
  }

  static std::function<void()> dispatch_body(LowLatencyParameters p) {
    return [p] {
      u64 format = p.kind & 7;
      if (format == BF16_ROWS) {
        ep4j::low_latency::dispatch_bf16(p);
      } else if (format == NVFP4_ROWS) {
        ep4j::low_latency::dispatch_nvfp4(p);
      } else {
        ep4j::low_latency::dispatch_fp8(p);
      }
    };
  }

  static std::function<void()> combine_body(LowLatencyParameters p, CombineMode mode) {
    return [p, mode] {
#if EP4J_MIXED
      if (mode == MODE_SUMMED) {
        ep4j::low_latency::combine_summed(p);
        return;
      }
#endif
#if EP4J_RANK_MAJOR
      ep4j::low_latency::combine_summed(p);
#else
      if (mode == MODE_LOGFMT) {
        ep4j::low_latency::combine_logfmt(p);
      } else if (mode == MODE_PARTIAL) {
        ep4j::low_latency::combine_partial(p);
      } else {
        ep4j::low_latency::combine_bf16(p);
      }
#endif
    };
  }

  template <class T>
  T* copy(const std::vector<T>& values, const char* name, u32 rank) {
    T* at = machine.memory.allocate<T>(values.size(), name, (int)rank);
    std::copy(values.begin(), values.end(), at);
    return at;
  }

  static Halves flat(const std::vector<Halves>& rows) {
    Halves all;
    for (const Halves& row : rows) {
      all.insert(all.end(), row.begin(), row.end());
    }
    return all;
  }

  // The experts' rows, at the slots of the dispatched rows.
  void fill(const LatencyCombine& combine, u32 r, const RankSet& members, char* y) const {
    for (u32 g = 0; g < deliveries.groups(combine.dispatch->rank_major, r); g++) {
      u64 slot = g * deliveries.capacity(combine.dispatch->rank_major);
      for (Row row : deliveries.rows(*combine.dispatch, r, g, members)) {
        Halves values = combine.row(row.source, row.token, combine.dispatch->rank_major ? r : row.choice);
        u64 row_bytes = values.size() * 2;
        std::memcpy(y + slot++ * row_bytes, values.data(), row_bytes);
      }
    }
  }

  void check_statistics(const LatencyCall& call, u32 r) const {
    for (u32 s = 0; call.p.waits != nullptr && s < world.ranks; s++) {
      if (call.p.waits[s] < call.waits[s]) {
        fail("rank %u: time waited for rank %u shrinks", r, s);
      }
      // The kernel has masked s: without a notice of the host only the deadline ends that wait.
      bool late = masks[r][s] != 0 && !masked_before[r][s] && *(host_gone[r] + s) == 0;
      if (late && call.p.waits[s] - call.waits[s] < call.p.timeout) {
        fail("rank %u: masked rank %u after %llu, before the deadline", r, s, call.p.waits[s] - call.waits[s]);
      }
      expect(waited[r][s], 0, "wait left for rank", r, s);
    }
  }

  void check(const LatencyDispatch& dispatch, u32 r, const LatencyCall& call) const {
    if (controls[r]->failed) {
      return;
    }
    RankSet with = members(r);
    deliveries.check(dispatch, r, with, call.p, call.cumulative);
    check_statistics(call, r);
    for (auto& input : call.inputs) {
      input(with);
    }
  }

  void check(const LatencyCombine& combine, u32 r, const LatencyCall& call) const {
    if (controls[r]->failed) {
      return;
    }
    RankSet with = members(r);
    for (u32 t = 0; t < call.p.tokens; t++) {
      Halves sum = combine.sum(r, t, with);
      u64 row_bytes = sum.size() * 2;
      if (std::memcmp(call.p.out + t * row_bytes, sum.data(), row_bytes) != 0) {
        fail("rank %u: the sum of token %u differs", r, t);
      }
    }
    check_statistics(call, r);
  }
};

}  // namespace emulator
