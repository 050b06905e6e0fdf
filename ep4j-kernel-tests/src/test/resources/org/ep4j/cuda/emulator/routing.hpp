// A random world, its routing, and a plain model of a dispatch: one row at a time.
#pragma once
#include <numeric>
#include "machine.hpp"

namespace emulator {

// Properties that all operations of a case share.
struct World {
  u32 ranks;
  u32 experts;
  u32 max_tokens;
  u32 max_choices;
  u32 row_bytes;          // the maximum
  u32 scale_bytes;        // the maximum
  std::vector<u32> node;  // [ranks]
  std::vector<bool> gone;
  std::vector<u32> owner;  // [experts]
  std::vector<u32> local;  // [experts] number at its owner
  std::vector<u32> locals;  // [ranks] experts

  explicit World(Random& random)
      : World(random, node_sizes.empty() ? std::vector{random.between(1, random.once_in(4) ? 8 : 4)}
                                         : node_sizes) {}

  // A world with nodes of these sizes.
  World(Random& random, const std::vector<u32>& sizes)
      : ranks(std::accumulate(sizes.begin(), sizes.end(), 0u)),
        experts(huge() ? random.between(300, 320) : large() ? random.between(60, 130) : random.between(2, random.once_in(4) ? 130 : 40)),
        max_tokens(random.between(1, large() ? 2 : ranks > 8 ? 8 : 40)),
        max_choices(std::min(experts, huge() ? random.between(1, 3) : draw_choices(random))),
        row_bytes(16 * random.between(1, large() ? 2 : 40)),
        scale_bytes(random.once_in(3) ? 0 : random.between(1, large() ? 16 : 180)),
        gone(ranks),
        locals(ranks) {
    for (u32 n = 0; n < sizes.size(); n++) {
      node.insert(node.end(), sizes[n], n);
    }
    if (ranks > 2 && random.once_in(6)) {
      gone[random.below(ranks)] = true;
    }
    bool even = !random.once_in(3);
    u32 favoured = random.below(ranks);
    for (u32 e = 0; e < experts; e++) {
      owner.push_back(even                 ? e * ranks / experts
                      : random.once_in(3) ? favoured
                                           : random.below(ranks));
      local.push_back(locals[owner[e]]++);
    }
  }

  u32 expert_at(u32 rank, u32 number) const {
    for (u32 e = 0; e < experts; e++) {
      if (owner[e] == rank && local[e] == number) {
        return e;
      }
    }
    return experts;
  }

  u32 nodes() const { return node.back() + 1; }

  // Worlds of so many ranks have short rows and few tokens, whose choices may lead to more ranks than a
  // warp has lanes. Huge ones may have more ranks than a block of the emulated kernels has threads; they
  // have more experts than that, too, and little else.
  bool large() const { return ranks > 32; }
  bool huge() const { return ranks > 128; }

  u32 draw_choices(Random& random) const {
    return large() && random.once_in(2) ? 64 : random.between(1, random.once_in(4) && !large() ? 64 : 8);
  }

  // Blocks of a kernel, at most.
  u32 blocks(u32 usual) const { return huge() ? 1 : large() ? 2 : usual; }

  // In a quarter of the worlds of several nodes one node is missing, as after a reset; at least one
  // rank is left. Draws from separate random numbers, so that other cases stay the same.
  void lose_node(u64 seed) {
    Random random{std::mt19937_64(seed ^ 0x6e6f6465)};
    u32 lost = random.below(nodes());
    std::vector<bool> without = gone;
    for (u32 r = 0; r < ranks; r++) {
      without[r] = without[r] || node[r] == lost;
    }
    if (random.once_in(4) && std::count(without.begin(), without.end(), false) > 0) {
      gone = without;
    }
  }

  u32 max_node_ranks() const {
    std::vector<u32> sizes(nodes());
    for (u32 n : node) {
      sizes[n]++;
    }
    return *std::max_element(sizes.begin(), sizes.end());
  }

  std::string text() const {
    std::string all;
    for (u32 n : node) {
      all += nodes() > 1 ? " " + std::to_string(n) : "";
    }
    std::string lost;
    for (u32 r = 0; r < ranks; r++) {
      lost += gone[r] ? ", missing " + std::to_string(r) : "";
    }
    return "ranks " + std::to_string(ranks) + (all.empty() ? "" : " in nodes" + all) + lost + ", experts " + std::to_string(experts) + ", choices " +
           std::to_string(max_choices) + ", tokens " + std::to_string(max_tokens) + ", row bytes " +
           std::to_string(row_bytes) + ", scale bytes " + std::to_string(scale_bytes);
  }
};

// The choices of all ranks' tokens.
struct Routing {
  const World& world;
  u32 top_k;
  bool weighted;
  bool bad = false;  // some choices are refused
  std::vector<u32> tokens;
  std::vector<std::vector<i64>> ids;
  std::vector<std::vector<float>> weights;
  std::vector<i64> order;  // by expert: what orders sums by experts; empty: the experts

  Routing(const World& world, Random& random)
      : world(world),
        top_k(random.between(world.large() && world.max_choices > 32 ? 48 : 1, world.max_choices)),
        weighted(!random.once_in(4)),
        tokens(world.ranks),
        ids(world.ranks),
        weights(world.ranks) {
    bool faulty = random.once_in(8);
    if (random.once_in(2)) {
      for (u32 e = 0; e < world.experts; e++) {
        order.push_back((i64)e * 1000 - 5000);
      }
      std::shuffle(order.begin(), order.end(), random.engine);
    }
    for (u32 r = 0; r < world.ranks; r++) {
      tokens[r] = random.once_in(5) ? 0 : random.between(0, world.max_tokens);
      for (u32 t = 0; t < tokens[r]; t++) {
        std::vector<i64> choices(world.experts);
        for (u32 e = 0; e < world.experts; e++) {
          choices[e] = e;
        }
        std::shuffle(choices.begin(), choices.end(), random.engine);
        for (u32 k = 0; k < top_k; k++) {
          i64 id = random.once_in(8) ? -1 : choices[k];
          if (faulty && random.once_in(10)) {
            // Too large, too small, or an earlier choice of the token, if any.
            id = random.once_in(3) ? world.experts : random.once_in(2) ? -2 : choices[0];
          }
          ids[r].push_back(id);
          weights[r].push_back((float)random.between(1, 1000));
          bad = bad || (refused(r, t, k) && !world.gone[r]);
        }
      }
    }
  }

  i64 id(u32 rank, u32 token, u32 k) const { return ids[rank][token * top_k + k]; }

  // What orders the row of a choice.
  i64 order_of(i64 id) const {
    return order.empty() || id < 0 || id >= (i64)order.size() ? id : order[id];
  }

  bool refused(u32 rank, u32 token, u32 k) const {
    i64 mine = id(rank, token, k);
    bool again = false;
    for (u32 j = 0; j < k; j++) {
      again = again || id(rank, token, j) == mine;
    }
    return mine < -1 || mine >= (i64)world.experts || (again && mine != -1);
  }

  // Whether a choice has a route to a rank.
  bool leads(u32 from, u32 token, u32 k, u32 to) const {
    i64 mine = id(from, token, k);
    return !world.gone[from] && !world.gone[to] && mine != -1 && !refused(from, token, k) &&
           world.owner[mine] == to;
  }
};

// A row that a rank receives; without a token: padding.
struct Row {
  bool some = false;
  u32 source = 0;
  u32 token = 0;
  u32 choice = 0;  // EXPERT_MAJOR
};

// All rows that a rank receives, including rows without room.
struct Delivery {
  std::vector<Row> rows;
  std::vector<u32> starts;    // EXPERT_MAJOR: first row of each group, and the end
  std::vector<u32> received;  // [local experts] pairs
  std::vector<u32> from;      // [ranks + 1] index of each source's first token among all tokens

  u32 tokens() const { return from.back(); }

  Delivery(const World& world, const Routing& routing, u32 to, bool by_experts, u32 alignment)
      : received(world.locals[to]), from(1) {
    for (u32 s = 0; s < world.ranks; s++) {
      u32 count = 0;
      for (u32 t = 0; t < routing.tokens[s]; t++) {
        bool some = false;
        for (u32 k = 0; k < routing.top_k; k++) {
          if (routing.leads(s, t, k, to)) {
            some = true;
            received[world.local[routing.id(s, t, k)]]++;
          }
        }
        if (some) {
          count++;
          if (!by_experts) {
            rows.push_back(Row{true, s, t});
          }
        }
      }
      from.push_back(from.back() + count);
    }
    for (u32 l = 0; by_experts && l < world.locals[to]; l++) {
      starts.push_back((u32)rows.size());
      add_group(routing, to, world.expert_at(to, l));
      rows.resize((rows.size() + alignment - 1) / alignment * alignment);
    }
    starts.push_back((u32)rows.size());
  }

 private:
  void add_group(const Routing& routing, u32 to, u32 expert) {
    for (u32 s = 0; s < routing.world.ranks; s++) {
      for (u32 t = 0; t < routing.tokens[s]; t++) {
        for (u32 k = 0; k < routing.top_k; k++) {
          if (routing.leads(s, t, k, to) && routing.id(s, t, k) == (i64)expert) {
            rows.push_back(Row{true, s, t, k});
          }
        }
      }
    }
  }
};

}  // namespace emulator
