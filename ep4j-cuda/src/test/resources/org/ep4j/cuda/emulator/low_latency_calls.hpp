// Low-latency operations on all ranks of a world: what the host tells the kernels, and what must be
// found afterwards.
#pragma once
#include <set>
#include "low_latency_deliveries.hpp"
#include "low_latency_region.hpp"
#include "low_latency_wire.hpp"

namespace emulator {

// What a rank needs again when it receives what it has sent, and when it combines what it received.
struct LatencyCall {
  LowLatencyParameters p;
  std::vector<int> cumulative;
  std::vector<u64> waits;
  std::vector<std::function<void(const Company&)>> inputs;  // to be filled once this is received
};

class LowLatencyCalls {
 public:
  // Across nodes the world gets its nodes here, and may lose one: see World::lose_node.
  LowLatencyCalls(Machine& machine, World& drawn, u64 seed, u32 hidden, bool masking)
      : masking(masking),
        machine(machine),
        random(machine.random),
        world(drawn),
        hidden(hidden),
        deliveries{world},
        at(world, hidden, masking ? MOST_AREAS : 2) {
    Memory& memory = machine.memory;
    host_abort = memory.zeroed<u64>(1, "host_abort", EVERYBODY);
    placement = memory.allocate<u32>(world.experts, "placement", EVERYBODY);
    for (u32 r = 0; r < world.ranks; r++) {
      // A node is a run of ranks.
      node.push_back(FAR && r > 0 ? node[r - 1] + (random.once_in(2) ? 1 : 0) : 0);
      add_rank(r);
    }
    if (FAR) {
      drawn.node = node;
      drawn.lose_node(seed);
    }
    for (u32 e = 0; e < world.experts; e++) {
      placement[e] = (world.gone[world.owner[e]] ? 0xffff : world.owner[e]) << 16 | world.local[e];
    }
#if EP4J_FAR == EP4J_FAR_PUTS
    wire = std::make_unique<LatencyWire>(machine, world, at, hidden, far_parts);
    wire->start([this] { return ended < launched; });
#endif
    for (u32 r = 0; r < world.ranks; r++) {
      peers.push_back(memory.allocate<char*>(world.ranks, "peers", (int)r));
      for (u32 s = 0; s < world.ranks; s++) {
        peers[r][s] = world.gone[s] ? nullptr : node[r] == node[s] ? parts[s] : far_parts[s];
      }
    }
  }

  u32 turn_tokens = 1;
  const bool masking;
  u64 timeout = PATIENT;
  std::vector<u64*> masks;
  std::vector<u64*> host_masks;
  std::vector<u64*> host_gone;
  std::vector<Control*> controls;
  std::vector<Record*> records;
  std::set<u32> evicted;

  // A dispatch of one rank, received later if it is not `whole`.
  std::shared_ptr<LatencyCall> send(std::shared_ptr<LatencyDispatch> dispatch, u32 r, bool whole) {
    auto call = std::make_shared<LatencyCall>();
    LowLatencyParameters& p = call->p = constants(r);
    const Encoding& encoding = dispatch->encoding;
    bool by_ranks = dispatch->by_ranks;
    u64 groups = deliveries.groups(by_ranks, r);
    u64 rows = groups * deliveries.capacity(by_ranks);
    u64 scales = rows * encoding.scale_bytes();
    if (dispatch->columns && scales > 0) {
      u32 unit = 16 / encoding.column_unit();
      p.scale_columns = (deliveries.capacity(by_ranks) + unit - 1) / unit * unit;
      scales = groups * encoding.scale_bytes() * p.scale_columns;
    }
    p.kind = encoding.format;
    if (by_ranks) {
      p.kind |= 8 | (dispatch->weighted ? KIND_WEIGHTED : 0);
      p.weights = dispatch->weighted ? copy(dispatch->weights[r], "weights", r) : nullptr;
    }
    p.tokens = dispatch->routing.tokens[r];
    p.top_k = dispatch->routing.top_k;
    give_ids(p, dispatch->routing.ids[r], r);
    p.x = (char*)copy(flat(dispatch->x[r]), "x", r);
    p.row_bytes = encoding.row_bytes();
    p.scale_bytes = encoding.scale_bytes();
    p.scale_kind = encoding.format > FP8_ROWS ? encoding.format - FP8_ROWS : 0;
    p.global_scale = __float_as_uint(encoding.global_scale);
    Memory& memory = machine.memory;
    p.places = memory.allocate<u32>(p.ranks * p.max_tokens * p.most_choices, "places", (int)r);
    p.batches = memory.allocate<u32>(p.ranks, "batches", (int)r);
    p.choices = memory.allocate<u64>(p.max_tokens * p.most_choices, "choices", (int)r);
    p.rows = memory.allocate(rows * p.row_bytes, "rows", (int)r);
    p.scales = memory.allocate(scales, "scales", (int)r);
    p.source_tokens = memory.allocate<int>(rows, "source_tokens", (int)r);
    p.row_choices = memory.allocate<i64>(rows * p.top_k, "row_choices", (int)r);
    p.row_weights = memory.allocate<float>(rows * p.top_k, "row_weights", (int)r);
    p.ranges = memory.allocate<u64>(groups * (by_ranks ? 1 : p.ranks), "ranges", (int)r);
    p.row_counts = memory.allocate<int>(groups, "row_counts", (int)r);
    add_statistics(*call, r);
    for (u32 i = 0; i < dispatch->routing.ids[r].size(); i++) {
      refusals[r] =
          refusals[r] || dispatch->routing.refused(r, i / (u32)p.top_k, i % (u32)p.top_k);
    }
    enqueue(r, p, whole ? SENDING | RECEIVING : SENDING, false, by_ranks, [=, this] {
      std::fill_n((char*)p.x, p.tokens * hidden * 2, (char)0xdd);
      if (whole) {
        check(*dispatch, r, *call);
      }
    });
    return call;
  }

  void receive(std::shared_ptr<LatencyDispatch> dispatch, u32 r, std::shared_ptr<LatencyCall> call) {
    enqueue(r, call->p, RECEIVING, false, dispatch->by_ranks, [=, this] { check(*dispatch, r, *call); });
  }

  // A combine of one rank; `from` is its call of the dispatch.
  std::shared_ptr<LatencyCall> send(std::shared_ptr<LatencyCombine> combine, u32 r,
                                    std::shared_ptr<LatencyCall> from, bool whole) {
    auto call = std::make_shared<LatencyCall>();
    LowLatencyParameters& p = call->p = constants(r);
    p.tokens = from->p.tokens;
    p.top_k = from->p.top_k;
    p.places = from->p.places;
    p.batches = from->p.batches;
    p.choices = from->p.choices;
    give_ids(p, combine->ids[r], r);
    p.weights = copy(combine->weights[r], "weights", r);
    bool by_ranks = combine->dispatch->by_ranks;
    u64 rows = deliveries.groups(by_ranks, r) * deliveries.capacity(by_ranks);
    char* y = machine.memory.allocate(rows * hidden * 2, "y", (int)r);
    p.x = y;
    from->inputs.push_back([=, this](const Company& company) { fill(*combine, r, company, y); });
    p.out = machine.memory.allocate(p.tokens * hidden * 2, "out", (int)r);
    add_statistics(*call, r);
    enqueue(r, p, whole ? SENDING | RECEIVING : SENDING, true, by_ranks, [=, this] {
      std::fill_n(y, rows * hidden * 2, (char)0xdd);
      if (whole) {
        check(*combine, r, *call);
      }
    }, combine->way);
    return call;
  }

  void receive(std::shared_ptr<LatencyCombine> combine, u32 r, std::shared_ptr<LatencyCall> call) {
    enqueue(r, call->p, RECEIVING, true, combine->dispatch->by_ranks,
            [=, this] { check(*combine, r, *call); }, combine->way);
  }

  // After all operations. With masks a rank that is slow may have missed its own deadline, or may find
  // no area in which masked ranks do not write.
  void check_end(u32 r) const {
    u64 state = records[r]->state;
    u64 peer = records[r]->peer;
    bool crowded = records[r]->phase == PHASE_ENTER && masks[r][peer] != 0;
    expect(controls[r]->running, 0, "running", r);
    if (evicted.count(r) > 0) {
      return;
    }
    if (masking && state == STATE_TIMEOUT && (peer == r || crowded)) {
      return;
    }
    bool refused = state == STATE_NO_SUCH_EXPERT || state == STATE_DUPLICATE;
    if (state != 0 && !refused) {
      fail("rank %u: state %llu, phase %llu, peer %llu", r, state, records[r]->phase,
           records[r]->peer);
    }
    expect(refused, refusals[r], "refused choices", r);
    expect(*completed[r], tickets[r], "ticket", r);
  }

  Company company(u32 r) const {
    Company company(world.ranks);
    for (u32 s = 0; s < world.ranks; s++) {
      company[s] = !world.gone[s] && masks[r][s] == 0;
      expect(masks[r][s], host_masks[r][s], "mask", r, s);
    }
    return company;
  }

 private:
  Machine& machine;
  Random& random;
  const World& world;
  u32 hidden;
  Deliveries deliveries;
  LatencyRegion at;
  std::vector<u32> node;  // [ranks]
  std::vector<char*> parts;
  std::vector<u64*> far_states;
  std::vector<char*> far_parts;  // which ranks of other nodes write into
  std::vector<char**> peers;
#if EP4J_FAR == EP4J_FAR_PUTS
  std::unique_ptr<LatencyWire> wire;
#endif
  u64 launched = 0;
  u64 ended = 0;
  std::vector<u64*> waited;
  std::vector<u64*> told;
  std::vector<u64*> completed;
  std::vector<u64> tickets;
  std::vector<bool> refusals;  // by rank: some operation must have left one
  u64* host_abort;
  u32* placement;

  void add_rank(u32 r) {
    Memory& memory = machine.memory;
    std::string name = " of rank " + std::to_string(r);
    char* part = memory.allocate(at.bytes, "part" + name, EVERYBODY);
    at.clear(part);
    at.label(memory, part);
    parts.push_back(part);
    machine.belongs(r, part, at.bytes);
    char* far = memory.allocate(at.bytes, "far part" + name, EVERYBODY);
    at.clear(far);
    at.label(memory, far);
    far_parts.push_back(far);
    far_states.push_back(
        memory.zeroed<u64>(world.ranks + GROUPS * UNITS, "far state" + name, (int)r));
    controls.push_back(memory.zeroed<Control>(1, "control" + name, (int)r));
    records.push_back(memory.zeroed<Record>(1, "record" + name, (int)r));
    completed.push_back(memory.zeroed<u64>(1, "completed" + name, (int)r));
    masks.push_back(memory.zeroed<u64>(world.ranks, "masks" + name, (int)r));
    waited.push_back(memory.zeroed<u64>(world.ranks, "waited" + name, (int)r));
    told.push_back(memory.zeroed<u64>(world.ranks, "told" + name, (int)r));
    host_masks.push_back(memory.zeroed<u64>(world.ranks, "host_masks" + name, (int)r));
    host_gone.push_back(memory.zeroed<u64>(world.ranks, "host_gone" + name, (int)r));
    tickets.push_back(0);
    refusals.push_back(false);
  }

  LowLatencyParameters constants(u32 r) {
    LowLatencyParameters p{};
    p.peers = peers[r];
    p.own = parts[r];
    p.far = far_parts[r];
    p.near_first = (u64)(std::find(node.begin(), node.end(), node[r]) - node.begin());
    p.near_ranks = (u64)std::count(node.begin(), node.end(), node[r]);
    p.source_bytes = at.source_bytes;
    p.packed_offset = at.packed;
    p.far_state = far_states[r];
#if EP4J_FAR == EP4J_FAR_PUTS
    p.posts = wire->posts(r);
#endif
    p.rank = r;
    p.ranks = world.ranks;
    p.experts = world.experts;
    p.local_experts = world.locals[r];
    p.placement = placement;
    p.hidden = hidden;
    p.max_tokens = world.most_tokens;
    p.most_choices = world.most_choices;
    p.received_offset = at.received;
    p.headers_offset = at.headers;
    p.counts_offset = at.counts;
    p.count_stride = at.count_stride;
    p.entries_offset = at.entries;
    p.weights_offset = at.weights;
    p.flags_offset = at.flags;
    p.flag_stride = at.flag_stride;
    p.rows_offset = at.rows;
    p.lines_offset = at.lines;
    p.area_bytes = at.area_bytes;
    p.control = controls[r];
    p.masks = masks[r];
    p.waited = waited[r];
    p.told = told[r];
    p.masking = masking;
    p.host_masks = host_masks[r];
    p.host_gone = host_gone[r];
    p.turn_tokens = turn_tokens;
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

  void enqueue(u32 r, LowLatencyParameters p, u64 phases, bool combines, bool by_ranks,
               std::function<void()> then, Way way = WAY_CHOICES) {
    p.phases = phases;
    // As if some were replayed by a graph: nobody is told of their end.
    p.receipt = Receipt{random.once_in(3) ? 0ull : ++tickets[r], completed[r]};
    if (!(phases & RECEIVING)) {
      p.cumulative = nullptr;
      p.waits = nullptr;
    }
    Launch launch;
    launch.name = std::string(combines ? "combine " : "dispatch ") + std::to_string(tickets[r]) +
                  (phases == SENDING ? ", sending" : phases == RECEIVING ? ", receiving" : "");
    launch.blocks = random.between(1, 3);
    launch.threads = WARPS * LANES;
    launch.by_ranks = by_ranks;
    u64 tables = 6 * p.ranks + p.experts + 2 + (p.local_experts + by_ranks) * (p.ranks + 1);
    u64 marked = p.experts + (by_ranks || PUTS ? p.ranks : 0);
    u64 turn = marked * (1 + (turn_tokens + 31) / 32) + turn_tokens * p.top_k;
    launch.shared_bytes = combines ? p.ranks * 20 : 4 * (tables + turn);
    launch.body = combines ? combine_body(p, way) : dispatch_body(p);
    launched++;
    launch.then = [this, then] {
      then();
      ended++;
    };
    machine.enqueue(r, std::move(launch));
  }

  static std::function<void()> dispatch_body(LowLatencyParameters p) {
    return [p] {
      u64 format = p.kind & 7;
      if (format == BF16_ROWS) {
        ep4j_low_latency_dispatch_bf16(p);
      } else if (format == NVFP4_ROWS) {
        ep4j_low_latency_dispatch_nvfp4(p);
      } else {
        ep4j_low_latency_dispatch_fp8(p);
      }
    };
  }

  static std::function<void()> combine_body(LowLatencyParameters p, Way way) {
    return [p, way] {
#if EP4J_MIXED
      if (way == WAY_SUMMED) {
        ep4j_low_latency_combine_summed(p);
        return;
      }
#endif
#if EP4J_BY_RANKS
      ep4j_low_latency_combine(p);
#else
      if (way == WAY_LOGFMT) {
        ep4j_low_latency_combine_logfmt(p);
      } else if (way == WAY_PARTIAL) {
        ep4j_low_latency_combine_partial(p);
      } else {
        ep4j_low_latency_combine(p);
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

  // The experts' rows, where the dispatch put what they were made of.
  void fill(const LatencyCombine& combine, u32 r, const Company& company, char* y) const {
    for (u32 g = 0; g < deliveries.groups(combine.dispatch->by_ranks, r); g++) {
      u64 slot = g * deliveries.capacity(combine.dispatch->by_ranks);
      for (Row row : deliveries.rows(*combine.dispatch, r, g, company)) {
        Halves values = combine.row(row.source, row.token, combine.dispatch->by_ranks ? r : row.choice);
        std::memcpy(y + slot++ * hidden * 2, values.data(), hidden * 2);
      }
    }
  }

  void check_statistics(const LatencyCall& call, u32 r) const {
    for (u32 s = 0; call.p.waits != nullptr && s < world.ranks; s++) {
      if (call.p.waits[s] < call.waits[s]) {
        fail("rank %u: time waited for rank %u shrinks", r, s);
      }
      expect(waited[r][s], 0, "wait left for rank", r, s);
    }
  }

  void check(const LatencyDispatch& dispatch, u32 r, const LatencyCall& call) const {
    if (controls[r]->failed) {
      return;
    }
    Company with = company(r);
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
    Company with = company(r);
    for (u32 t = 0; t < call.p.tokens; t++) {
      Halves sum = combine.sum(r, t, with);
      if (std::memcmp(call.p.out + (u64)t * hidden * 2, sum.data(), hidden * 2) != 0) {
        fail("rank %u: the sum of token %u differs", r, t);
      }
    }
    check_statistics(call, r);
  }
};

}  // namespace emulator
