// High-throughput dispatches of a world: the host's layout and parameters, and the checks of the
// results. Between the end of an operation and the check peers may be several operations ahead:
// they must not change the results.
#pragma once
#include "operations.hpp"
#include "region.hpp"

// Its names equal those of other kernels.
namespace scale_rows {
#include "dispatch/scale_rows.cu"
}  // namespace scale_rows
namespace expert_ids {
#include "dispatch/expert_ids.cu"
}  // namespace expert_ids

namespace emulator {

class Dispatching {
 public:
  Machine& machine;
  Across* across;
  Random& random;
  World world;
  u32 max_alignment;
  Region at;
  u32 blocks_of_device;
  bool only_by_experts = false;  // all new dispatches are EXPERT_MAJOR
  std::vector<char*> regions;
  std::vector<Record*> records;
  std::vector<u64*> completed;
  std::vector<u64> tickets;
  std::vector<bool> refusals;  // by rank: some operation must have reported a refusal
  std::vector<char**> peers;  // by rank
  u64* abort;

  Dispatching(Machine& machine, World drawn, Across* across = nullptr)
      : machine(machine),
        across(across),
        random(machine.random),
        world(std::move(drawn)),
        max_alignment(random.once_in(2) ? 1 : random.between(1, 20)),
        at(world, max_alignment),
        blocks_of_device(world.blocks(6)),
        tickets(world.ranks),
        refusals(world.ranks) {
    Memory& memory = machine.memory;
    abort = memory.zeroed<u64>(1 + world.ranks, "host_abort", EVERYBODY);
    placement = memory.allocate<u32>(world.experts, "placement", EVERYBODY);
    order = memory.zeroed<u32>(world.ranks + 1 + world.experts, "order", EVERYBODY);
    for (u32 e = 0; e < world.experts; e++) {
      placement[e] = (world.gone[world.owner[e]] ? 0xffff : world.owner[e]) << 16 | world.local[e];
    }
    for (u32 r = 0; r < world.ranks; r++) {
      order[r + 1] = order[r] + world.locals[r];
      for (u32 l = 0; l < world.locals[r]; l++) {
        order[world.ranks + 1 + order[r] + l] = world.expert_at(r, l);
      }
      add_rank(r);
    }
    for (u32 r = 0; r < world.ranks; r++) {
      peers.push_back(memory.allocate<char*>(world.ranks, "peers", (int)r));
      for (u32 s = 0; s < world.ranks; s++) {
        peers[r][s] = world.gone[s] || world.node[s] != world.node[r] ? nullptr : regions[s];
      }
    }
  }

  std::shared_ptr<Handle> dispatch() {
    auto handle = std::make_shared<Handle>(Handle{Routing(world, random), only_by_experts || random.once_in(2), false, false, {}, {}, {}, {}});
    bool tight = random.once_in(8);
    for (u32 r = 0; r < world.ranks; r++) {
      u32 alignment = random.between(1, max_alignment);
      handle->alignments.push_back(alignment);
      handle->deliveries.emplace_back(world, handle->routing, r, handle->by_experts, alignment);
      u64 needed = handle->deliveries[r].rows.size();
      handle->limits.push_back(tight ? random.below((u32)needed + 2) : at.capacity);
      handle->overflow_rank = handle->overflow_rank || (!world.gone[r] && needed > handle->limits[r]);
    }
    bool fixed = random.once_in(tight ? 2 : 4);
    handle->refused = handle->overflow_rank && !fixed;
    bool zero = random.once_in(2);
    auto payload = draw_payload(handle->routing);
    for (u32 r = 0; r < world.ranks; r++) {
      DispatchParameters p = constants(r);
      set_handle(p, *handle, r);
      p.fixed_rows = fixed;
      p.zero = zero;
      p.counts_ticket = tickets[r] + 1;
      handle->parameters.push_back(p);
      p.ids = copy(handle->routing.ids[r], "ids", r);
      p.weights = handle->routing.weighted ? copy(handle->routing.weights[r], "weights", r) : nullptr;
      if (!handle->routing.order.empty()) {
        set_logical_ids(p, handle->routing, r);
      }
      enqueue(handle, payload, r, p);
    }
    return handle;
  }

  void dispatch_again(std::shared_ptr<Handle> handle) {
    auto payload = draw_payload(handle->routing);
    for (u32 r = 0; r < world.ranks; r++) {
      DispatchParameters p = handle->parameters[r];
      p.cached = 1;
      enqueue(handle, payload, r, p);
    }
  }

  Control* control(u32 r) const { return (Control*)regions[r]; }

  // Whether the results of its kernels are invalid, or already overwritten.
  bool is_lost(u32 r) const { return control(r)->failed != 0 || control(r)->fenced_by != 0; }

  // As Recovery does on the surviving ranks; no kernel runs there.
  void go_on_without(u32 lost) {
    world.gone[lost] = true;
    u64 epoch = 0;
    for (u32 r = 0; r < world.ranks; r++) {
      epoch = std::max(epoch, world.gone[r] ? 0 : control(r)->epoch);
    }
    for (u32 e = 0; e < world.experts; e++) {
      placement[e] |= world.owner[e] == lost ? 0xffff0000 : 0;
    }
    for (u32 r = 0; r < world.ranks; r++) {
      if (world.gone[r]) {
        continue;
      }
      peers[r][lost] = nullptr;
      std::memset(regions[r], 0, at.words);
      std::memset(block_counts[r], 0, counters() * 8);
      control(r)->epoch = epoch + 3;
      control(r)->ticket = tickets[r];
      records[r]->state = 0;
      refusals[r] = false;
    }
  }

  // After all operations.
  void check_end() const {
    for (u32 r = 0; r < world.ranks; r++) {
      if (world.gone[r]) {
        continue;
      }
      u64 state = records[r]->state;
      bool refused = state == STATE_NO_SUCH_EXPERT || state == STATE_DUPLICATE;
      if (state != 0 && !refused) {
        fail("rank %u: state %llu, phase %llu, peer %llu", r, state, records[r]->phase,
             records[r]->peer);
      }
      expect(refused, refusals[r], "refused choices", r);
      expect(*completed[r], tickets[r], "ticket", r);
    }
  }

  Receipt receipt(u32 rank) { return Receipt{++tickets[rank], completed[rank]}; }

  template <class T>
  T* copy(const std::vector<T>& values, const char* name, u32 rank) {
    T* at = machine.memory.allocate<T>(values.size(), name, (int)rank);
    std::copy(values.begin(), values.end(), at);
    return at;
  }

  std::vector<char> bytes(size_t count) {
    std::vector<char> all(count);
    for (char& one : all) {
      one = (char)random.engine();
    }
    return all;
  }

 private:
  u32* placement;
  u32* order;
  std::vector<u64*> block_counts;

  u64 counters() const { return (u64)blocks_of_device * (world.ranks + world.experts); }

  void add_rank(u32 r) {
    Memory& memory = machine.memory;
    std::string name = " of rank " + std::to_string(r);
    char* region = memory.allocate(at.bytes, "region" + name, EVERYBODY);
    std::memset(region, 0, at.words);
    memory.label(region, "control");
    memory.label(region + at.ready, "ready");
    memory.label(region + at.done, "done");
    memory.label(region + at.counts, "counts");
    memory.label(region + at.groups, "groups");
    memory.label(region + at.arrivals, "arrivals");
    memory.label(region + at.words, "arrays");
    regions.push_back(region);
    machine.belongs(r, region, at.bytes);
    records.push_back(memory.zeroed<Record>(1, "record" + name, (int)r));
    completed.push_back(memory.zeroed<u64>(1, "completed" + name, (int)r));
    block_counts.push_back(memory.zeroed<u64>(counters(), "block counts" + name, (int)r));
  }

  DispatchParameters constants(u32 r) {
    DispatchParameters p{};
    p.peers = peers[r];
    p.rank = r;
    p.ranks = world.ranks;
    p.experts = world.experts;
    p.local_experts = world.locals[r];
    p.placement = placement;
    p.wide_ids = 1;
    p.ready_offset = at.ready;
    p.done_offset = at.done;
    p.counts_offset = at.counts;
    p.rows_offset = at.rows;
    p.scales_offset = at.scales;
    p.factors_offset = at.factors;
    p.ids_offset = at.ids;
    p.weights_offset = at.weights;
    p.tokens_offset = at.tokens;
    p.sources_offset = at.sources;
    p.arrivals_offset = at.arrivals;
    p.metadata_offset = at.return_buffer;
    p.receive_slots = at.receive_slots;
    p.block_counts = block_counts[r];
    p.order = order;
    p.timeout = PATIENT;
    p.record = records[r];
    p.host_abort = abort;
    if (across != nullptr) {
      across->set_constants(p, r);
    }
    return p;
  }

  void set_handle(DispatchParameters& p, const Handle& handle, u32 r) {
    Memory& memory = machine.memory;
    u64 choices = (u64)handle.routing.tokens[r] * handle.routing.top_k;
    u32 local = world.locals[r];
    p.tokens = handle.routing.tokens[r];
    p.top_k = handle.routing.top_k;
    p.routes = memory.allocate<u64>(choices, "routes", (int)r);
    p.lists = memory.allocate<u32>(world.ranks * p.tokens, "lists", (int)r);
    p.matrix = memory.allocate<u32>(world.ranks * (world.ranks + 4), "matrix", (int)r);
    p.flat_rows = memory.allocate<u32>(1, "flat_rows", (int)r);
    p.group_starts = memory.allocate<u32>(local + 1, "group_starts", (int)r);
    p.group_rows = memory.allocate<u32>(local, "group_rows", (int)r);
    p.targets = memory.allocate<u32>(choices, "targets", (int)r);
    p.slot_rows = memory.allocate<u64>(at.receive_slots * p.top_k, "slot rows", (int)r);
    p.slot_weights = memory.allocate<float>(at.receive_slots * p.top_k, "slot weights", (int)r);
    p.entries = memory.allocate<u64>(choices, "entries", (int)r);
    p.kept_ids = memory.allocate<i64>(choices, "kept ids", (int)r);
    p.kept_weights = memory.allocate<float>(choices, "kept weights", (int)r);
    p.limit = handle.limits[r];
    p.alignment = handle.alignments[r];
    p.totals = memory.zeroed<u64>(8, "totals", (int)r);
    p.rank_offsets = memory.zeroed<u64>(world.ranks + 1, "rank_offsets", (int)r);
    p.expert_offsets = memory.zeroed<u64>(local + 1, "expert_offsets", (int)r);
    p.received = memory.zeroed<u32>(local, "received", (int)r);
    p.aligned = memory.zeroed<u32>(local, "aligned", (int)r);
    if (across != nullptr) {
      across->set_handle(p, r);
    }
  }

  void set_logical_ids(DispatchParameters& p, const Routing& routing, u32 r) {
    std::vector<i64> ids;
    for (i64 id : routing.ids[r]) {
      ids.push_back(routing.order_of(id));
    }
    p.wide_logical_ids = random.below(2);
    p.logical_ids = p.wide_logical_ids ? (void*)copy(ids, "logical ids", r)
                                       : copy(std::vector<int>(ids.begin(), ids.end()), "logical ids", r);
  }

  std::shared_ptr<Payload> draw_payload(const Routing& routing) {
    auto payload = std::make_shared<Payload>();
    payload->row_bytes = 16 * random.between(1, world.row_bytes / 16);
    payload->scale_bytes = random.once_in(3) ? 0 : world.scale_bytes;
    payload->factors = random.once_in(2);
    for (u32 r = 0; r < world.ranks; r++) {
      u64 tokens = routing.tokens[r];
      payload->sent_x.push_back(bytes(tokens * payload->row_bytes));
      payload->sent_scales.push_back(bytes(tokens * payload->scale_bytes));
      payload->sent_factors.emplace_back();
      for (u32 t = 0; t < tokens; t++) {
        payload->sent_factors[r].push_back((float)random.below(1000));
      }
      payload->x.push_back(copy(payload->sent_x[r], "x", r));
      payload->scales.push_back(copy(payload->sent_scales[r], "scales", r));
      payload->factor.push_back(copy(payload->sent_factors[r], "factors", r));
    }
    if (across != nullptr) {
      across->draw_chunks(routing, *payload);
    }
    return payload;
  }

  void enqueue(std::shared_ptr<Handle> handle, std::shared_ptr<Payload> payload, u32 r,
               DispatchParameters p) {
    if (world.gone[r]) {
      return;
    }
    p.x = payload->x[r];
    p.row_bytes = payload->row_bytes;
    p.scales = payload->scale_bytes > 0 ? payload->scales[r] : nullptr;
    p.scale_bytes = payload->scale_bytes;
    if (p.scale_bytes > 0 && random.once_in(3)) {
      p.scales = enqueue_scale_rows(*payload, r, p.tokens);
    }
    if (!p.cached && random.once_in(2)) {
      enqueue_expert_ids(*handle, r, p);
    }
    p.factors = payload->factors ? payload->factor[r] : nullptr;
    p.metadata_bytes = Region::metadata_bytes(payload->scale_bytes, (u32)p.top_k, p.cached);
    p.receipt = receipt(r);
    for (u32 i = 0; !p.cached && i < handle->routing.ids[r].size(); i++) {
      refusals[r] = refusals[r] || handle->routing.refused(r, i / (u32)p.top_k, i % (u32)p.top_k);
    }
    u32 warps = random.between(3, world.large() ? 4 : 8);
    Launch launch;
    launch.name = std::string(p.cached ? "cached " : "") + (handle->by_experts ? "EXPERT_MAJOR" : "FLAT") +
                  " dispatch " + std::to_string(p.receipt.ticket);
    launch.blocks = random.between(1, blocks_of_device);
    launch.threads = warps * LANES;
    p.push_warps = random.between(1, warps - 2);
    p.eager = random.below(2);
    p.stage_bytes = random.once_in(3) ? 16 * random.between(1, (u32)p.row_bytes / 16) : p.row_bytes;
    p.tile_warps = random.between(1, warps);
    p.push_blocks = handle->by_experts ? random.between(1, launch.blocks) : launch.blocks;
    launch.shared_bytes = shared_bytes(p, *handle, warps);
    launch.body = [p, experts = handle->by_experts] {
      if (experts) {
        ep4j::expert_dispatch_kernel(p);
      } else {
        ep4j::dispatch_kernel(p);
      }
    };
    if (across != nullptr) {
      across->set_launch(p, *handle, *payload, launch);
    }
    launch.then = [this, handle, payload, r, p] {
      if (across != nullptr) {
        across->ended();
      }
      if (is_lost(r)) {
        return;
      }
      check_numbers(*handle, r, p);
      check_refused_choices(*handle, r, p);
      if (handle->refused) {
        check_nothing_sent(*handle, *payload, r, p);
      } else {
        check_rows(*handle, *payload, r, p);
      }
      // The caller may overwrite its input now.
      std::fill_n(payload->x[r], payload->sent_x[r].size(), (char)0xdd);
      std::fill_n(payload->scales[r], payload->sent_scales[r].size(), (char)0xdd);
    };
    machine.enqueue(r, std::move(launch));
  }

  // Refused choices have no row in the handle: a receiver would count rows that it does not write.
  void check_refused_choices(const Handle& handle, u32 r, const DispatchParameters& p) const {
    for (u32 i = 0; handle.by_experts && i < handle.routing.ids[r].size(); i++) {
      if (handle.routing.refused(r, i / (u32)p.top_k, i % (u32)p.top_k)) {
        expect(p.entries[i], NO_ROUTE, "entry of a refused choice", r, i);
      }
    }
  }

  // As if the call had the experts of the rank with the fewest of them on every rank: a kernel in
  // front of the dispatch translates its ids. Routings with other experts stay as they are.
  void enqueue_expert_ids(const Handle& handle, u32 r, DispatchParameters& dispatch) {
    u64 each = *std::min_element(world.locals.begin(), world.locals.end());
    std::vector<i64> ids = handle.routing.ids[r];
    for (i64& id : ids) {
      if (id >= (i64)world.experts) {
        id += (i64)(each * world.ranks) - (i64)world.experts;
      } else if (id >= 0 && world.local[id] >= each) {
        return;
      } else if (id >= 0) {
        id = (i64)(world.owner[id] * each + world.local[id]);
      }
    }
    expert_ids::ExpertIdsParameters p{};
    p.control = control(r);
    p.record = dispatch.record;
    p.number = &control(r)->epoch;
    p.tokens = dispatch.tokens;
    p.top_k = dispatch.top_k;
    p.wide_ids = random.below(2);
    p.ids = p.wide_ids ? (void*)copy(ids, "ids of the call", r)
                       : copy(std::vector<int>(ids.begin(), ids.end()), "ids of the call", r);
    p.experts = each * world.ranks;
    p.each = each;
    p.order = order;
    p.ranks = world.ranks;
    p.to = machine.memory.allocate<i64>(ids.size(), "expert ids", (int)r);
    dispatch.ids = p.to;
    Launch launch;
    launch.name = "expert ids";
    launch.blocks = random.between(1, 3);
    launch.threads = random.between(1, 8) * LANES;
    launch.shared_bytes = 0;
    launch.body = [p] { expert_ids::ep4j::expert_ids_kernel(p); };
    launch.then = [] {};
    machine.enqueue(r, std::move(launch));
  }

  // As if the caller had given the scales by columns: a kernel in front of the dispatch makes rows.
  const char* enqueue_scale_rows(const Payload& payload, u32 r, u64 tokens) {
    scale_rows::ScaleRowsParameters p{};
    p.tokens = tokens;
    p.element_bytes = payload.scale_bytes % 4 == 0 && random.once_in(2) ? 4 : 1;
    p.columns = payload.scale_bytes / p.element_bytes;
    p.length = tokens + random.below(3);
    char* columns = machine.memory.allocate(payload.scale_bytes * p.length, "scale columns", (int)r);
    for (u64 t = 0; t < tokens; t++) {
      for (u64 c = 0; c < p.columns; c++) {
        std::memcpy(columns + (c * p.length + t) * p.element_bytes,
                    payload.scales[r] + t * payload.scale_bytes + c * p.element_bytes, p.element_bytes);
      }
    }
    p.from = columns;
    p.to = machine.memory.allocate(payload.scale_bytes * tokens, "scale rows", (int)r);
    Launch launch;
    launch.name = "scale rows";
    launch.blocks = random.between(1, 3);
    launch.threads = random.between(1, 8) * LANES;
    launch.shared_bytes = 0;
    launch.body = [p] { scale_rows::ep4j::scale_rows_kernel(p); };
    launch.then = [] {};
    machine.enqueue(r, std::move(launch));
    return p.to;
  }

  // As in Dispatcher.
  u64 shared_bytes(const DispatchParameters& p, const Handle& handle, u32 warps) const {
    u64 slots = RankSlots::ARRAYS * world.ranks + 1;
    u64 moving = p.push_warps * STAGES * (p.stage_bytes + 8);
    if (!handle.by_experts) {
      return moving + (slots + world.experts + world.ranks * (1 + 2 * warps)) * 4;
    }
    u64 words = slots + 2 * (world.experts + world.locals[p.rank]) + 1;
    u64 tiles = (world.ranks + world.experts) * (1 + 2 * p.tile_warps) * 4;
    return (words * 4 + 127) / 128 * 128 +
           std::max(tiles, moving + p.push_warps * STAGES * p.metadata_bytes);
  }

  void check_numbers(const Handle& handle, u32 r, const DispatchParameters& p) const {
    const Delivery& delivery = handle.deliveries[r];
    u32 pairs = 0;
    for (u32 l = 0; l < world.locals[r]; l++) {
      u32 rows = delivery.received[l];
      pairs += rows;
      expect(p.received[l], rows, "rows of expert", r, l);
      expect(p.aligned[l], (rows + p.alignment - 1) / p.alignment * p.alignment, "aligned rows", r, l);
      if (handle.by_experts) {
        expect(p.expert_offsets[l], delivery.starts[l], "group", r, l);
      }
    }
    for (u32 s = 0; !handle.by_experts && !handle.refused && s <= world.ranks; s++) {
      expect(p.rank_offsets[s], delivery.from[s], "first token of source", r, s);
    }
    u32 overflow_rank = world.ranks;
    u64 max_needed = 0;
    for (u32 peer = 0; peer < world.ranks; peer++) {
      u64 needed = handle.deliveries[peer].rows.size();
      if (!world.gone[peer] && needed > handle.limits[peer] && needed > max_needed) {
        overflow_rank = peer;
        max_needed = needed;
      }
    }
    expect(p.totals[TOTAL_TICKET], p.counts_ticket, "ticket of counts", r);
    expect(p.totals[TOTAL_NEEDED], delivery.rows.size(), "needed rows", r);
    expect(p.totals[TOTAL_RECEIVED], handle.by_experts ? pairs : delivery.tokens(), "received", r);
    expect(p.totals[TOTAL_OVERFLOW_RANK], overflow_rank, "rank without room", r);
    expect(p.totals[TOTAL_OVERFLOW_NEEDED], max_needed, "rows that need room", r);
    expect(p.totals[TOTAL_OVERFLOW_LIMIT], max_needed == 0 ? 0 : handle.limits[overflow_rank], "room", r);
  }

  void check_rows(const Handle& handle, const Payload& payload, u32 r,
                  const DispatchParameters& p) const {
    const Delivery& delivery = handle.deliveries[r];
    const char* region = regions[r];
    const int* tokens = (const int*)(region + at.tokens);
    const int* sources = (const int*)(region + at.sources);
    for (u64 i = 0; i < std::min(delivery.rows.size(), (size_t)p.limit); i++) {
      Row row = delivery.rows[i];
      expect((u64)(i64)tokens[i], row.some ? (u64)row.token : -1ull, "token of row", r, i);
      expect((u64)(i64)sources[i], row.some ? (u64)row.source : -1ull, "source of row", r, i);
      if (row.some) {
        check_row(payload, r, i, row);
        check_metadata(handle, payload, r, p, i, row);
      } else if (p.zero) {
        for (u64 b = 0; b < p.row_bytes; b++) {
          expect((u8)region[at.rows + i * p.row_bytes + b], 0, "padding row", r, i);
        }
      }
    }
    for (u64 i = delivery.rows.size(); p.fixed_rows && i < p.limit; i++) {
      expect((u64)(i64)tokens[i], -1ull, "token of no row", r, i);
      expect((u64)(i64)sources[i], -1ull, "source of no row", r, i);
    }
  }

  // No row of this payload, whose bytes are random, and no route to one.
  void check_nothing_sent(const Handle& handle, const Payload& payload, u32 r,
                          const DispatchParameters& p) const {
    const std::vector<Row>& rows = handle.deliveries[r].rows;
    u64 bytes = payload.row_bytes;
    for (u64 i = 0; i < std::min(rows.size(), (size_t)p.limit); i++) {
      if (rows[i].some && std::memcmp(regions[r] + at.rows + i * bytes,
                                      payload.sent_x[rows[i].source].data() + rows[i].token * bytes, bytes) == 0) {
        fail("rank %u: row %llu was sent by rank %u though the dispatch is refused", r, i, rows[i].source);
      }
    }
    for (u64 i = 0; i < p.tokens * p.top_k; i++) {
      expect(p.routes[i], NO_ROUTE, "route of a refused dispatch", r, i);
    }
  }

  void check_row(const Payload& payload, u32 r, u64 i, Row row) const {
    u64 bytes = payload.row_bytes;
    if (std::memcmp(regions[r] + at.rows + i * bytes,
                    payload.sent_x[row.source].data() + row.token * bytes, bytes) != 0) {
      fail("rank %u: row %llu differs from token %u of rank %u", r, i, row.token, row.source);
    }
    bytes = payload.scale_bytes;
    if (std::memcmp(regions[r] + at.scales + i * bytes,
                    payload.sent_scales[row.source].data() + row.token * bytes, bytes) != 0) {
      fail("rank %u: scales of row %llu differ from token %u of rank %u", r, i, row.token, row.source);
    }
  }

  void check_metadata(const Handle& handle, const Payload& payload, u32 r,
                        const DispatchParameters& p, u64 i, Row row) const {
    const Routing& routing = handle.routing;
    const char* region = regions[r];
    if (payload.factors) {
      expect((u64)((const float*)(region + at.factors))[i],
             (u64)payload.sent_factors[row.source][row.token], "factor of row", r, i);
    }
    const float* weights = (const float*)(region + at.weights);
    const std::vector<float>& given = routing.weights[row.source];
    u64 first = (u64)row.token * routing.top_k;
    // A refused choice ends in an exception; the memory is then undefined.
    if (p.cached || routing.bad) {
      return;
    }
    if (handle.by_experts) {
      if (routing.weighted) {
        expect((u64)weights[i], (u64)given[first + row.choice], "weight of row", r, i);
      }
      return;
    }
    for (u32 k = 0; k < routing.top_k; k++) {
      bool here = routing.leads(row.source, row.token, k, r);
      i64 id = here ? (i64)world.local[routing.id(row.source, row.token, k)] : -1;
      expect((u64)((const i64*)(region + at.ids))[i * routing.top_k + k], (u64)id, "choice of row", r, i);
      if (routing.weighted) {
        expect((u64)weights[i * routing.top_k + k], here ? (u64)given[first + k] : 0, "weight of row", r,
               i);
      }
    }
  }
};

}  // namespace emulator
