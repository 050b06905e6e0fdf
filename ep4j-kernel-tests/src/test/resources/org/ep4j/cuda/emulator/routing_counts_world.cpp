// Counts of random routings, compared with a plain count: `routing_counts_world SEED CASES`.
#include "common/ptx.cuh"

#include "dispatch/routing_counts.cu"

#include <set>

#include "main.hpp"

namespace emulator {

constexpr u32 THREADS = 512;


inline i64 random_id(Random& random, u64 experts) {
  if (random.once_in(8)) {
    const i64 none[] = {-1, -2, (i64)experts, (i64)experts + random.below(9), 1ll << 31, 1ll << 40,
                        -(1ll << 40)};
    return none[random.below(7)];
  }
  return random.below((u32)experts);
}

inline void compare(const RoutingCountsParameters& p, const std::vector<i64>& ids,
                    const std::vector<u32>& node_of) {
  std::vector<u32> per_expert(p.experts), per_rank(p.ranks), per_node(p.nodes);
  for (u64 t = 0; t < p.tokens; t++) {
    std::set<u64> experts, ranks, nodes;
    for (u64 k = 0; k < p.top_k; k++) {
      i64 id = ids[t * p.top_k + k];
      if (id >= 0 && id < (i64)p.experts) {
        experts.insert(id);
        ranks.insert(id / p.each);
        nodes.insert(node_of[id / p.each]);
      }
    }
    for (u64 e : experts) per_expert[e]++;
    for (u64 r : ranks) per_rank[r]++;
    for (u64 n : nodes) per_node[n]++;
    for (u64 r = 0; r < p.ranks; r++) {
      u8 is = p.in_rank[t * p.ranks + r];
      if (is != ranks.count(r)) {
        fail("token %llu of rank %llu: %u", t, r, is);
      }
    }
  }
  auto equal = [](const char* name, const std::vector<u32>& due, const u32* seen) {
    for (size_t i = 0; i < due.size(); i++) {
      if (seen[i] != due[i]) {
        fail("%s %zu has %u tokens, not %u", name, i, seen[i], due[i]);
      }
    }
  };
  equal("expert", per_expert, p.per_expert);
  equal("rank", per_rank, p.per_rank);
  equal("node", per_node, p.per_node);
}

void counts_case(u64 seed) {
  Machine machine(seed, 1);
  Random& random = machine.random;
  RoutingCountsParameters p{};
  std::vector<u32> node_of;
  u64 ranks = random.once_in(4) ? random.between(9, 40) : random.between(1, 9);
  for (u64 r = 0; r < ranks; r++) {
    u32 last = r == 0 ? 0 : node_of.back();
    node_of.push_back(r == 0 ? 0 : last + random.once_in(3));
  }
  p.ranks = ranks;
  p.nodes = node_of.back() + 1;
  p.each = random.between(1, 5);
  p.experts = ranks * p.each;
  p.tokens = random.once_in(6) ? 0 : random.once_in(3) ? random.between(500, 1100) : random.between(1, 70);
  p.top_k = random.between(0, 11);
  p.wide_ids = random.below(2);
  std::vector<i64> ids(p.tokens * p.top_k);
  for (i64& id : ids) {
    id = random_id(random, p.experts);
    if (!p.wide_ids) {
      id = (int)id;
    }
  }
  Memory& memory = machine.memory;
  auto* wide = memory.allocate<i64>(ids.size() + 1, "wide ids", 0);
  auto* narrow = memory.allocate<int>(ids.size() + 1, "narrow ids", 0);
  for (size_t i = 0; i < ids.size(); i++) {
    wide[i] = ids[i];
    narrow[i] = (int)ids[i];
  }
  p.ids = p.wide_ids ? (void*)wide : (void*)narrow;
  auto* nodes = memory.allocate<u32>(ranks, "nodes", 0);
  std::copy(node_of.begin(), node_of.end(), nodes);
  p.node_of = nodes;
  p.per_expert = memory.allocate<u32>(p.experts, "experts", 0);
  p.per_rank = memory.allocate<u32>(ranks, "ranks", 0);
  p.per_node = memory.allocate<u32>(p.nodes, "nodes of tokens", 0);
  p.in_rank = memory.allocate<u8>(p.tokens * ranks + 1, "tokens in ranks", 0);
  about += "ranks " + std::to_string(ranks) + ", experts " + std::to_string(p.experts) + ", tokens " +
           std::to_string(p.tokens) + ", choices " + std::to_string(p.top_k);
  auto blocks = [](u64 keys) { return (u32)((keys + ep4j::KEYS - 1) / ep4j::KEYS); };
  machine.enqueue(0, {"routing counts", blocks(p.experts) + blocks(ranks) + blocks(p.nodes), THREADS, 0,
                      [p] { ep4j::routing_counts_kernel(p); }, [] {}});
  machine.run();
  memory.check_guards();
  compare(p, ids, node_of);
}

const Worlds worlds = {{"routing_counts_world", counts_case}};

}  // namespace emulator
