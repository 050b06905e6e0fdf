// High-throughput combines of dispatched rows: inputs and expected results of each rank. Needs
// `combining`, the kernels' parameters, which a world includes before.
#pragma once
#include "dispatching.hpp"

namespace emulator {

enum Type { FP32, BF16, BF16_EXACT };

// Rows of one element type, as floats.
struct Values {
  bool wide;  // 4 bytes

  u32 bytes() const { return wide ? 4 : 2; }

  float get(const std::vector<char>& all, u64 i) const {
    if (wide) {
      float value;
      std::memcpy(&value, &all[i * 4], 4);
      return value;
    }
    u16 half;
    std::memcpy(&half, &all[i * 2], 2);
    return __uint_as_float((u32)half << 16);
  }

  void set(std::vector<char>& all, u64 i, float value) const {
    u32 bits = wide ? __float_as_uint(value) : round_to_bf16(value);
    std::memcpy(&all[i * bytes()], &bits, bytes());
  }

  float rounded(float value) const {
    return wide ? value : __uint_as_float(round_to_bf16(value) << 16);
  }
};

// A combine: inputs and expected results of each rank.
struct Combine {
  std::shared_ptr<Handle> handle;
  Type type;
  Values values;
  u32 hidden;
  u32 biases;
  bool weighted;
  bool applied;  // rows are multiplied by the weights of their choices
  bool rounded;  // across nodes: a node's sum for a token is one row
  bool ordered;  // in one chain, in the order of experts
  bool pulled;   // EXPERT_MAJOR: the sources read all rows
  std::vector<std::vector<char>> y, bias0, bias1, expected;
  std::vector<std::vector<float>> weights, expected_weights;

  // `only_ordered`: unless that cannot be.
  Combine(const World& world, std::shared_ptr<Handle> handle, Random& random, bool only_ordered)
      : handle(handle),
        type((Type)random.below(3)),
        values{type == FP32},
        hidden(world.row_bytes / values.bytes()),
        biases(random.below(3)),
        weighted(random.once_in(2)),
        applied(handle->by_experts && handle->routing.weighted && random.once_in(2)),
        rounded(world.nodes() > 1 && type != BF16_EXACT && (type == BF16 || random.once_in(2))),
        ordered(can_order(world, *handle) && (only_ordered || random.once_in(3))),
        pulled(ordered || (world.nodes() == 1 && handle->by_experts && random.once_in(2))) {
    for (u32 r = 0; r < world.ranks; r++) {
      u64 rows = handle->deliveries[r].rows.size();
      u64 tokens = handle->routing.tokens[r];
      y.push_back(draw(rows * hidden, random));
      bias0.push_back(draw(tokens * hidden, random));
      bias1.push_back(draw(tokens * hidden, random));
      weights.emplace_back();
      for (u64 i = 0; i < rows * (handle->by_experts ? 1 : handle->routing.top_k); i++) {
        weights[r].push_back((float)random.below(1000) / 7);
      }
    }
    for (u32 r = 0; r < world.ranks; r++) {
      expected.emplace_back(bias0[r].size());
      expected_weights.emplace_back(handle->routing.ids[r].size());
      for (u32 t = 0; t < handle->routing.tokens[r]; t++) {
        sum(world, r, t);
      }
    }
  }

 private:
  // Across nodes the rails must have kept where rows lie.
  static bool can_order(const World& world, const Handle& handle) {
    return handle.by_experts && (world.nodes() == 1 || handle.parameters[0].internode_entries != nullptr);
  }

  std::vector<char> draw(u64 count, Random& random) const {
    std::vector<char> all(count * values.bytes());
    for (u64 i = 0; i < count; i++) {
      values.set(all, i, ((float)random.below(1 << 20) - (1 << 19)) / (float)(1u << random.below(20)));
    }
    return all;
  }

  // In ascending rank order; the rows of a rank are summed first, in ascending row order.
  void sum(const World& world, u32 source, u32 token) {
    std::vector<float> total(hidden);
    for (u32 h = 0; h < hidden; h++) {
      u64 at = (u64)token * hidden + h;
      total[h] += biases > 0 ? values.get(bias0[source], at) : 0;
      total[h] += biases > 1 ? values.get(bias1[source], at) : 0;
    }
    float* weights = expected_weights[source].data() + (u64)token * handle->routing.top_k;
    if (ordered) {
      add_by_experts(source, token, total, weights);
    }
    for (u32 holder = ordered ? world.ranks : 0; holder < world.ranks;) {
      u32 end = holder + 1;
      if (!rounded) {
        add_holder(source, token, holder, total, weights);
      } else {
        while (end < world.ranks && world.node[end] == world.node[holder]) {
          end++;
        }
        std::vector<float> part(hidden), of_weights(handle->routing.top_k);
        bool some = false;
        for (u32 h = holder; h < end; h++) {
          some = add_holder(source, token, h, part, of_weights.data()) || some;
        }
        for (u32 h = 0; some && h < hidden; h++) {
          total[h] += values.rounded(part[h]);
        }
        for (u32 k = 0; k < of_weights.size(); k++) {
          weights[k] += of_weights[k];
        }
      }
      holder = end;
    }
    for (u32 h = 0; h < hidden; h++) {
      values.set(expected[source], (u64)token * hidden + h, total[h]);
    }
  }

  void add_by_experts(u32 source, u32 token, std::vector<float>& total, float* sums) {
    struct Term {
      u32 holder;
      u64 row;
      u32 choice;
    };
    std::map<i64, Term> terms;
    for (u32 holder = 0; holder < y.size(); holder++) {
      const std::vector<Row>& rows = handle->deliveries[holder].rows;
      for (u64 i = 0; i < rows.size(); i++) {
        if (rows[i].some && rows[i].source == source && rows[i].token == token) {
          i64 id = handle->routing.id(source, token, rows[i].choice);
          terms[handle->routing.order_of(id)] = Term{holder, i, rows[i].choice};
        }
      }
    }
    for (const auto& [_, term] : terms) {
      u64 choice = (u64)token * handle->routing.top_k + term.choice;
      float weight = applied ? handle->routing.weights[source][choice] : 1;
      for (u32 h = 0; h < hidden; h++) {
        total[h] = std::fmaf(values.get(y[term.holder], term.row * hidden + h), weight, total[h]);
      }
      sums[term.choice] += weights[term.holder][term.row];
    }
  }

  bool add_holder(u32 source, u32 token, u32 holder, std::vector<float>& total, float* sums) {
    const std::vector<Row>& rows = handle->deliveries[holder].rows;
    u32 top_k = handle->routing.top_k;
    std::vector<float> partial(hidden);
    bool some = false;
    for (u64 i = 0; i < rows.size(); i++) {
      if (!rows[i].some || rows[i].source != source || rows[i].token != token) {
        continue;
      }
      some = true;
      float weight = applied ? handle->routing.weights[source][token * top_k + rows[i].choice] : 1;
      for (u32 h = 0; h < hidden; h++) {
        float product = values.get(y[holder], i * hidden + h) * weight;
        partial[h] += product;
      }
      if (handle->by_experts) {
        sums[rows[i].choice] += weights[holder][i];
      } else {
        for (u32 k = 0; k < top_k; k++) {
          sums[k] += weights[holder][i * top_k + k];
        }
      }
    }
    for (u32 h = 0; some && h < hidden; h++) {
      total[h] += type == BF16_EXACT ? partial[h] : values.rounded(partial[h]);
    }
    return some;
  }
};

// The differences for ranks of several nodes.
class CombineAcross {
 public:
  virtual ~CombineAcross() = default;

  // Tokens of a chunk, for all ranks in a pass of columns.
  virtual u32 draw_chunks(const Combine& combine, u64 row_bytes) = 0;

  // Bytes of a pass of columns in the order of experts: all rows of a token fit into a slot.
  virtual u64 ordered_row_bytes(const Handle& handle) const = 0;

  // The kernel, its warps and shared memory.
  virtual void set_launch(combining::CombineParameters& p, u32 rank, const Combine& combine,
                          Launch& launch) = 0;
};

// Shared memory of a warp for the rows of a token and the weights to apply.
inline u32 row_list(const combining::CombineParameters& p) {
  return 64 * (p.slot_weights == nullptr ? 8 : 12);
}

class Combining {
 public:
  bool only_ordered = false;  // all combines are, if they can be

  explicit Combining(Dispatching& world, CombineAcross* across = nullptr)
      : world(world), across(across) {}

  void combine(std::shared_ptr<Handle> handle) {
    auto combine = std::make_shared<Combine>(world.world, handle, world.random, only_ordered);
    chunks.clear();
    u32 elsewhere = combine->pulled || world.random.once_in(2) ? 0 : world.random.between(2, 4);
    for (u32 r = 0; r < world.world.ranks; r++) {
      if (!world.world.gone[r]) {
        enqueue(combine, r, elsewhere == 0 || !world.random.once_in(elsewhere));
      }
    }
  }

 private:
  Dispatching& world;
  CombineAcross* across;
  std::map<u64, u32> chunks;  // by column

  // `readable`: peers may read the rows where they are.
  void enqueue(std::shared_ptr<Combine> combine, u32 r, bool readable) {
    const Handle& handle = *combine->handle;
    Memory& memory = world.machine.memory;
    combining::CombineParameters p{};
    p.peers = world.peers[r];
    p.rank = r;
    p.ranks = world.world.ranks;
    p.top_k = handle.routing.top_k;
    p.tokens = handle.routing.tokens[r];
    p.routes = handle.parameters[r].routes;
    p.matrix = handle.parameters[r].matrix;
    p.slot_rows = handle.by_experts ? handle.parameters[r].slot_rows : nullptr;
    p.slot_weights = combine->applied ? handle.parameters[r].slot_weights : nullptr;
    p.entries = handle.parameters[r].entries;
    p.kept_ids = handle.parameters[r].kept_ids;
    p.kept_weights = combine->applied ? handle.parameters[r].kept_weights : nullptr;
    p.internode = handle.parameters[r].internode;
    p.internode_routes = handle.parameters[r].internode_routes;
    p.internode_tokens = handle.parameters[r].internode_tokens;
    p.internode_entries = handle.parameters[r].internode_entries;
    bool pulls = combine->pulled || !handle.by_experts;
    int readers = readable && (across == nullptr || combine->ordered) && pulls ? EVERYBODY : (int)r;
    p.y = world.copy(combine->y[r], "y", readers);
    p.hidden = combine->hidden;
    p.weights = combine->weighted ? world.copy(combine->weights[r], "row weights", readers) : nullptr;
    // All memory is in one address space.
    p.rows_place = readers == EVERYBODY ? (u64)(p.y - p.peers[r]) : 0;
    p.weights_place = readers == EVERYBODY && combine->weighted ? (u64)((const char*)p.weights - p.peers[r]) : 0;
    p.out = memory.allocate(combine->expected[r].size(), "out", (int)r);
    p.bias0 = combine->biases > 0 ? world.copy(combine->bias0[r], "bias0", r) : nullptr;
    p.bias1 = combine->biases > 1 ? world.copy(combine->bias1[r], "bias1", r) : nullptr;
    p.out_weights = memory.allocate<float>(combine->expected_weights[r].size(), "out_weights", (int)r);
    p.ready_offset = world.at.ready;
    p.done_offset = world.at.done;
    p.places_offset = world.at.places;
    p.groups_offset = world.at.groups;
    p.group_words = world.at.group_words;
    p.return_offset = world.at.return_buffer;
    p.return_weights_offset = world.at.return_weights;
    p.timeout = PATIENT;
    p.record = world.records[r];
    p.host_abort = world.abort;
    // Rows that are wider in the return buffer travel in several passes of columns, as in Combiner.
    u32 traveling = combine->type == BF16 || (combine->type == BF16_EXACT && pulls) ? 2 : 4;
    u64 row_bytes = across != nullptr && combine->ordered ? across->ordered_row_bytes(handle) : world.at.return_row_bytes;
    u64 largest = row_bytes / traveling / 8 * 8;
    Receipt last = world.receipt(r);
    for (u64 column = 0; column < p.hidden; column += largest) {
      p.column = column;
      p.columns = std::min(largest, p.hidden - column);
      p.return_row_bytes = p.columns * traveling;
      p.receipt = column + p.columns == p.hidden ? last : Receipt{0, last.completed};
      if (across != nullptr && chunks.count(column) == 0) {
        chunks[column] = across->draw_chunks(*combine, p.return_row_bytes);
      }
      p.chunk_tokens = chunks[column];
      p.rounded = combine->pulled ? combine->type != BF16_EXACT : combine->rounded;
      world.machine.enqueue(r, launch(combine, r, p));
    }
  }

  Launch launch(std::shared_ptr<Combine> combine, u32 r, combining::CombineParameters p) {
    bool flat = p.slot_rows == nullptr;
    bool pulls = flat || combine->pulled;
    u32 warps = combining::PIPELINES * world.random.between(2, world.world.large() ? 2 : 4);
    u32 row_bytes = (u32)p.columns * combine->values.bytes();
    // Sums of experts may travel as float32: a piece of a ring is then twice as long.
    u32 vectors = pulls ? combining::PULL_VECTORS : combining::SUM_VECTORS;
    u32 unit = pulls ? 16 : 32;
    u32 longest = std::min(pulls ? row_bytes : ((u32)p.return_row_bytes + 31) / 32 * 32,
                           vectors * (warps / combining::PIPELINES - 1) * LANES * 16);
    p.table_bytes = (p.ranks * 20 + 127) / 128 * 128;
    p.slot_bytes = world.random.once_in(3) ? unit * world.random.between(1, longest / unit) : longest;
    p.slots = world.random.between(2, 12);
    p.push_warps = world.random.between(1, warps - 1);
    p.stage_bytes = !flat                       ? 0
                    : world.random.once_in(3) ? 16 * world.random.between(1, row_bytes / 16)
                                               : row_bytes;
    p.parts = world.random.between(1, 5);
    Launch launch;
    launch.name = std::string(flat ? "FLAT" : combine->ordered ? "ordered" : combine->pulled ? "pulled" : "EXPERT_MAJOR") + " combine " +
                  std::to_string(world.tickets[r]) + " of column " + std::to_string(p.column);
    launch.blocks = world.random.between(1, world.blocks_of_device);
    launch.threads = (pulls ? warps : warps + 1) * LANES;
    launch.shared_bytes =
        pulls ? std::max<u64>(p.push_warps * STAGES * (p.stage_bytes + 8) + warps * row_list(p) + 5 * p.ranks * 4,
                             p.table_bytes + combining::PIPELINES * combining::PullRing::bytes(p))
             : p.table_bytes + combining::PIPELINES * combining::ExpertRing::bytes(p);
    launch.body = [p, flat, ordered = combine->ordered, pulled = combine->pulled, type = combine->type] {
      if (flat && p.rows_place == 0) {
        type == FP32 ? combining::ep4j::combine_kernel_fp32_push(p) : combining::ep4j::combine_kernel_bf16_push(p);
      } else if (flat) {
        type == FP32 ? combining::ep4j::combine_kernel_fp32(p) : combining::ep4j::combine_kernel_bf16(p);
      } else if (ordered) {
        type == FP32 ? combining::ep4j::pull_by_experts_kernel_fp32(p) : combining::ep4j::pull_by_experts_kernel_bf16(p);
      } else if (pulled) {
        type == FP32 ? combining::ep4j::pull_by_ranks_kernel_fp32(p) : combining::ep4j::pull_by_ranks_kernel_bf16(p);
      } else if (type == FP32) {
        combining::ep4j::expert_combine_kernel_fp32(p);
      } else if (type == BF16) {
        combining::ep4j::expert_combine_kernel_bf16(p);
      } else {
        combining::ep4j::expert_combine_kernel_bf16_exact(p);
      }
    };
    if (across != nullptr) {
      across->set_launch(p, r, *combine, launch);
    }
    bool ends = p.column + p.columns == p.hidden;
    launch.then = [this, ends, combine, r, p] {
      if (world.across != nullptr) {
        world.across->ended();
      }
      bool lost = world.is_lost(r);
      if (ends && !lost) {
        check(*combine, r, p);
      }
      if (ends || lost) {
        // The caller may overwrite its input now.
        std::fill_n((char*)p.y, combine->y[r].size(), (char)0xdd);
      }
    };
    return launch;
  }

  static void check(const Combine& combine, u32 r, const combining::CombineParameters& p) {
    u64 row_bytes = p.hidden * combine.values.bytes();
    for (u64 t = 0; t < p.tokens; t++) {
      if (std::memcmp(p.out + t * row_bytes, &combine.expected[r][t * row_bytes], row_bytes) != 0) {
        fail("rank %u: the sum of token %llu differs", r, t);
      }
      for (u64 k = 0; p.weights != nullptr && k < p.top_k; k++) {
        u64 i = t * p.top_k + k;
        expect(__float_as_uint(p.out_weights[i]),
                            __float_as_uint(combine.expected_weights[r][i]), "bits of weight", r, i);
      }
    }
  }
};

// Some dispatches, new and cached, and combines of their rows; in a large world a combine follows each
// dispatch.
inline void operate(Dispatching& dispatching, Combining& combining, u32 operations) {
  std::shared_ptr<Handle> last;
  Random& random = dispatching.random;
  bool varies = !dispatching.world.large();
  for (; operations > 0; operations--) {
    // An overflow or a refusal ends in an exception: that handle is not used again.
    if (last == nullptr || last->overflow_rank || last->routing.bad || (varies && random.once_in(4))) {
      last = dispatching.dispatch();
    } else if (varies && random.once_in(3)) {
      dispatching.dispatch_again(last);
    } else {
      combining.combine(last);
    }
  }
}

}  // namespace emulator
