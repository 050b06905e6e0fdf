// The differences for ranks of several nodes: parameters and launches of their kernels. Needs the
// kernels, which a world includes before.
#pragma once
#include "combining.hpp"
#include "internode_nodes.hpp"

namespace emulator {

class InternodeWorlds : public Across, public CombineAcross {
 public:
  InternodeWorlds(Machine& machine, const World& world)
      : machine(machine),
        random(machine.random),
        world(world),
        nodes(machine, world, min_slot(world)),
        keeps_entries(!random.once_in(4)) {}

  InternodeNodes& internode() { return nodes; }

  // Every combine is in the order of experts.
  void order(Dispatching& dispatching, Combining& combining) {
    dispatching.only_by_experts = combining.only_ordered = keeps_entries = true;
  }

  void set_constants(DispatchParameters& p, u32 r) override {
    p.node_of = nodes.node_of;
    p.internode = nodes.internode[r];
    p.internode_tokens = world.max_tokens;
  }

  void set_handle(DispatchParameters& p, u32 r) override {
    u64 words = (u64)nodes.partners_of_rank(r) * world.max_tokens * p.top_k;
    p.internode_routes = machine.memory.allocate<u64>(words, "internode routes", (int)r);
    if (keeps_entries) {
      p.internode_entries = machine.memory.allocate<u64>(words, "internode entries", (int)r);
      // As an earlier dispatch with the memory of the handle may have left it: a row of this rank.
      std::fill_n(p.internode_entries, words, (u64)r << 32);
    }
  }

  void draw_chunks(const Routing& routing, Payload& payload) override {
    u64 record = record_bytes(payload.row_bytes, payload.scale_bytes, routing.top_k);
    u64 largest = (nodes.internode[0]->slot_bytes - SLOT_HEADER) / record;
    payload.chunk_tokens = random.between(1, (u32)std::min((u64)32, largest));
  }

  void set_launch(DispatchParameters& p, const Handle& handle, const Payload& payload,
                  Launch& launch) override {
    u32 warps = world.large() ? 6 : random.between(6, 9);
    // One warp sends slots, one raises arrival words if there are any, and one is left.
    u32 largest = warps - (handle.by_experts ? 3 : 2);
    launch.name = "internode " + launch.name;
    launch.threads = warps * LANES;
    p.chunk_tokens = payload.chunk_tokens;
    p.push_warps = random.between(1, largest - 2);
    p.fill_warps = random.between(1, largest - 1 - (u32)p.push_warps);
    p.forward_warps = random.between(1, largest - (u32)(p.push_warps + p.fill_warps));
    u64 moving = p.push_warps + p.fill_warps + p.forward_warps;
    p.push_blocks = handle.by_experts ? random.between(1, launch.blocks) : launch.blocks;
    u32 row = handle.by_experts ? ExpertRecord(p).row : FlatRecord(p).row;
    u32 whole = row + (u32)p.row_bytes;
    p.stage_bytes =
        random.once_in(3) ? row + 16 * random.between(1, (u32)p.row_bytes / 16) : whole;
    u64 words = RankSlots::ARRAYS * world.ranks + 1 + 3 * p.internode->partners + 2;
    u64 stages = moving * STAGES * (p.stage_bytes + 8);
    if (handle.by_experts) {
      words += 2 * (world.experts + p.local_experts) + 1;
      p.tile_warps = random.between(1, warps);
      u64 tiles = (world.ranks + world.experts) * (1 + 2 * p.tile_warps) * 4;
      launch.shared_bytes = (words * 4 + 127) / 128 * 128 +
                            std::max(tiles, stages + p.push_warps * STAGES * p.metadata_bytes);
    } else {
      words += world.experts + world.ranks * (1 + 2 * warps);
      launch.shared_bytes = stages + words * 4;
    }
    nodes.open++;
    launch.body = [p, experts = handle.by_experts] {
      if (experts) {
        ep4j::internode_expert_dispatch_kernel(p);
      } else {
        ep4j::internode_dispatch_kernel(p);
      }
    };
  }

  void ended() override { nodes.open--; }

  u32 draw_chunks(const Combine& combine, u64 row_bytes) override {
    u32 top_k = combine.handle->routing.top_k;
    u64 return_bytes = combine.ordered ? whole_lines(row_bytes + 4) : whole_lines(row_bytes + top_k * 4);
    u32 rows = combine.ordered ? top_k : std::min(top_k, world.max_node_ranks());
    u64 largest = nodes.internode[0]->slot_bytes / (return_bytes * rows);
    return random.between(1, (u32)std::min((u64)32, largest));
  }

  // As in InternodeChunks.
  u64 ordered_row_bytes(const Handle& handle) const override {
    return (nodes.internode[0]->slot_bytes / handle.routing.top_k / 128 * 128 - 4) / 16 * 16;
  }

  void set_launch(combining::CombineParameters& p, u32, const Combine& combine,
                  Launch& launch) override {
    if (combine.ordered) {
      set_ordered_launch(p, combine.type, launch);
      return;
    }
    u32 warps = random.between(4, 8);
    launch.name = "internode " + launch.name;
    launch.threads = warps * LANES;
    p.push_warps = random.between(1, warps - 3);
    p.return_warps = random.between(1, warps - 2 - (u32)p.push_warps);
    p.sum_warps = random.between(1, warps - 1 - (u32)(p.push_warps + p.return_warps));
    p.load_stage_bytes = 128 * random.between(16, 40);
    u64 node_ranks = p.internode->end - p.internode->first;
    launch.shared_bytes = p.push_warps * STAGES * (p.stage_bytes + 8) + p.return_warps * 8192 +
                          p.sum_warps * (p.load_stage_bytes + 8) +
                          warps * (row_list(p) + p.internode->nodes * 12) +
                          (3 * p.internode->partners + 2 + 6 * p.ranks + 2 * (1 + p.internode->partners) * node_ranks) * 4;
    nodes.open++;
    launch.body = [p, flat = p.slot_rows == nullptr, type = combine.type] {
      if (type == FP32) {
        combining::ep4j::internode_combine_kernel_fp32(p);
      } else if (type == BF16 || flat) {
        combining::ep4j::internode_combine_kernel_bf16(p);
      } else {
        combining::ep4j::internode_combine_kernel_bf16_exact(p);
      }
    };
  }

 private:
  Machine& machine;
  Random& random;
  const World& world;
  InternodeNodes nodes;
  bool keeps_entries;

  void set_ordered_launch(combining::CombineParameters& p, Type type, Launch& launch) {
    u32 warps = random.between(3, 8);
    launch.name = "internode " + launch.name;
    launch.threads = warps * LANES;
    p.push_warps = 0;
    p.stage_bytes = 0;
    p.return_warps = random.between(1, warps - 2);
    p.sum_warps = random.between(1, warps - 1 - (u32)p.return_warps);
    p.load_stage_bytes = 128 * random.between(16, 40);
    u64 words = p.ranks * 4 + 3 * p.internode->partners + 2;
    launch.shared_bytes = (words * 4 + 127) / 128 * 128 + p.return_warps * 8192 +
                          p.sum_warps * (p.load_stage_bytes + 8 + 64 * 12 + p.internode->nodes * 12);
    nodes.open++;
    launch.body = [p, type] {
      if (type == FP32) {
        combining::ep4j::internode_by_experts_kernel_fp32(p);
      } else {
        combining::ep4j::internode_by_experts_kernel_bf16(p);
      }
    };
  }

  static u64 record_bytes(u64 row_bytes, u64 scale_bytes, u64 top_k) {
    return whole_lines(whole_lines(64 + top_k * 24 + (scale_bytes + 15) / 16 * 16) + row_bytes);
  }

  static u64 min_slot(const World& world) {
    u64 return_bytes = whole_lines(std::max(world.row_bytes, 32u) + world.max_choices * 4);
    // In the order of experts a row of each choice, of at least one line.
    return std::max({SLOT_HEADER + record_bytes(world.row_bytes, world.scale_bytes, world.max_choices),
                     return_bytes * std::min(world.max_choices, world.max_node_ranks()), (u64)128 * world.max_choices});
  }
};

}  // namespace emulator
