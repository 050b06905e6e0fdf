// Low-latency dispatches, and combines of their rows, in all formats, with hooks and without, on
// random worlds: `low_latency_world SEED CASES`.
#if !defined(EP4J_LL_PACKETS) && !defined(EP4J_INTERNODE)
#define EP4J_LL_PACKETS 1
#endif
#include "common/ptx.cuh"

#include "lowlatency/low_latency_dispatch.cu"
#include "lowlatency/low_latency_combine.cu"

#include "low_latency_calls.hpp"
#include "main.hpp"
#include "observed_waits.hpp"

namespace emulator {

// A library does not end work for a rank that does not answer: there are no masks.
constexpr bool BY_LIBRARY = EP4J_INTERNODE == EP4J_INTERNODE_PUTS && EP4J_PUT_TRANSPORT == 2;

// An operation on all ranks; one of the two pointers is set.
struct Step {
  std::shared_ptr<LatencyDispatch> dispatch;
  std::shared_ptr<LatencyCombine> combine;
  size_t of;  // combine: index of its dispatch
};

// One rank's order of sends and receipts: it receives in order, at most two operations behind.
class Walk {
 public:
  Walk(LowLatencyCalls& calls, const std::vector<Step>& steps, u32 rank, Random& random)
      : calls(calls), steps(steps), rank(rank), random(random), sent(steps.size()) {}

  void go() {
    bool hooks = !random.once_in(3);
    for (size_t i = 0; i < steps.size(); i++) {
      if (steps[i].combine != nullptr) {
        receive_to(steps[i].of + 1);
      }
      bool whole = !hooks || random.once_in(2);
      receive_to(whole ? i : i > 1 ? i - 1 : 0);
      sent[i] = steps[i].combine != nullptr
                    ? calls.send(steps[i].combine, rank, sent[steps[i].of], whole)
                    : calls.send(steps[i].dispatch, rank, whole);
      received += whole ? 1 : 0;
      if (random.once_in(2)) {
        receive_to(random.between((u32)received, (u32)i + 1));
      }
    }
    receive_to(steps.size());
  }

 private:
  LowLatencyCalls& calls;
  const std::vector<Step>& steps;
  u32 rank;
  Random& random;
  std::vector<std::shared_ptr<LatencyCall>> sent;
  size_t received = 0;

  void receive_to(size_t end) {
    for (; received < end; received++) {
      const Step& step = steps[received];
      if (step.combine != nullptr) {
        calls.receive(step.combine, rank, sent[received]);
      } else {
        calls.receive(step.dispatch, rank, sent[received]);
      }
    }
  }
};

std::vector<Step> draw_steps(const World& world, u32 hidden, Random& random) {
  std::vector<Step> steps;
  size_t last[2] = {};
  u32 dispatches = 0;
  u32 combines = random.between(1, 4);  // on average, combines a dispatch plus one
  bool large = world.large();  // a dispatch and its combine
  for (u32 left = large ? 2 : random.between(2, world.max_tokens < 8 ? 12 : 7); left > 0; left--) {
    if (dispatches == 0 || (!large && random.once_in(combines))) {
      // Dispatches of all lengths alternate in the same memory.
      u32 length = random.once_in(2) ? hidden : 128 * random.between(1, hidden / 128);
      float global_scale = random.below(4) == 0 ? 1 : (float)random.between(1, 500) / 7;
      Encoding encoding{(Format)random.below(FORMATS), length, global_scale};
      if (encoding.format == FP8_UE8M0_ROWS && length % 512 != 0) {
        encoding.format = FP8_POW2_ROWS;
      }
      last[dispatches++ % 2] = steps.size();
      steps.push_back({std::make_shared<LatencyDispatch>(world, encoding, random), nullptr, 0});
    } else {
      size_t of = last[dispatches > 1 ? random.below(2) : 0];
      steps.push_back({nullptr, std::make_shared<LatencyCombine>(steps[of].dispatch, random), of});
    }
  }
  return steps;
}

// Steps in which every rank takes as many as it does of `steps` in a world of eight: all share them. At
// most eight times as many: the machine calls MAX_IDLE steps without a move a hang.
u64 shared_steps(const World& world, u64 steps) { return steps * std::clamp(world.ranks, 8u, 64u) / 8; }

// Ranks that miss the deadline are masked. Some ranks pause in the middle of an operation, for a
// while or forever; those that resume continue normally.
void let_some_sleep(Machine& machine, LowLatencyCalls& calls, const World& world) {
  Random& random = machine.random;
  // Two operations of 2000 rows take two million steps.
  u32 rows = world.ranks * world.max_tokens * world.max_choices;
  calls.timeout = shared_steps(world, random.between(200000, 1500000)) + 1000 * (std::max(rows, 1000u) - 1000);
  about += "timeout " + std::to_string(calls.timeout) + ", ";
  if (random.once_in(2)) {
    calls.stop_processes();
  }
  for (u32 left = random.below(world.ranks); left > 0; left--) {
    u32 r = random.below(world.ranks);
    // A rank can do most harm soon after it has been masked.
    u64 length = random.once_in(4)   ? FOREVER
                 : random.once_in(4) ? calls.timeout * random.between(1, 6) / 2
                                     : calls.timeout + random.below(1u << random.between(10, 18));
    bool known = random.once_in(2);
    calls.sleepers.insert(r);
    about += "rank " + std::to_string(r) + " sleeps" +
             (length == FOREVER ? "" : " for " + std::to_string(length)) + ", ";
    machine.put_to_sleep(r, random.below(1u << random.between(4, 19)), length, [&, r, length, known] {
      for (u32 s = 0; s < world.ranks; s++) {
        *(calls.host_gone[s] + r) = length == FOREVER && known;
      }
      if (length == FOREVER && known) {
        calls.lose_wire(r);
      }
    });
  }
}

// All ranks but one dispatch: its peers mask it, and no other rank, although all of them wait for its words
// first.
void let_one_be_silent(Machine& machine, LowLatencyCalls& calls, const World& world, std::vector<Step>& steps) {
  u32 silent = machine.random.below(world.ranks);
  calls.timeout = shared_steps(world, 3000000);
  calls.silent = silent;
  steps.resize(1);
  machine.put_to_sleep(silent, 0, FOREVER, [] {});
  about += ", silent rank " + std::to_string(silent);
}

// As org.ep4j.cuda.engine.failure.StaleRankFence does.
void fence(Machine& machine, Control* control, u32 lost, u32 by) {
  control->fenced_by = by + 1;
  machine.moved();
  machine.run_while([&] { return control->running != 0; });
  machine.fenced(lost);
}

// With masks: the process of a rank is stopped, and the hosts of the other ranks learn that it is
// dead. Those of its node fence it, and then their kernels count its areas as unused. The rank resumes at any
// time; alone on its node it writes whatever it likes.
void let_one_be_fenced(Machine& machine, LowLatencyCalls& calls, const World& world) {
  Random& random = machine.random;
  u32 lost = random.below(world.ranks);
  if (world.gone[lost]) {
    return;
  }
  auto run_on = [&] {
    u64 end = machine.steps + random.below(1u << random.between(4, 21));
    machine.run_while([&] { return machine.steps < end; });
  };
  machine.stop(lost, random.below(8));
  run_on();
  for (u32 s = 0; s < world.ranks; s++) {
    *(calls.host_gone[s] + lost) = !calls.are_together(s, lost);
  }
  if (calls.can_be_fenced(lost)) {
    run_on();
    fence(machine, calls.controls[lost], lost, (lost + 1) % world.ranks);
    calls.fenced.insert(lost);
  }
  for (u32 s = 0; s < world.ranks; s++) {
    *(calls.host_gone[s] + lost) = s != lost;
  }
  run_on();
  machine.go_on(lost);
  about += ", fenced rank " + std::to_string(lost);
}

// Without masks: the other ranks have lost a rank, and those of its node fence it before they reset.
void let_one_be_fenced_at_reset(Machine& machine, LowLatencyCalls& calls, const World& world) {
  Random& random = machine.random;
  u32 lost = random.below(world.ranks);
  if (world.gone[lost] || !calls.can_be_fenced(lost)) {
    return;
  }
  about += ", fenced rank " + std::to_string(lost);
  for (u32 r = 0; r < world.ranks; r++) {
    calls.fenced.insert(r);
  }
  machine.stop(lost, random.below(8));
  if (random.once_in(2)) {
    machine.put_to_sleep(lost, random.below(1u << random.between(4, 16)), 1u << random.between(10, 22), [] {});
  }
  machine.lose(lost);
  fence(machine, calls.controls[lost], lost, (lost + 1) % world.ranks);
  machine.go_on(lost);
}

void low_latency_case(u64 seed) {
  Random first{std::mt19937_64(seed)};
  World world(first);
  if (first.once_in(3)) {
    world.max_tokens = first.between(1, 4);
  }
  u32 hidden = 128 * first.between(1, world.large() ? 1 : first.once_in(4) ? 20 : 8);
  Machine machine(seed, PUTS ? 2 * world.ranks : world.ranks);
  bool masking = !BY_LIBRARY && first.once_in(3);
  LowLatencyCalls calls(machine, world, seed, hidden, masking);
  bool silent = masking && machine.random.once_in(4);
  if (masking && !silent) {
    let_some_sleep(machine, calls, world);
  }
  calls.tile_tokens = machine.random.between(1, 2 * world.max_tokens);
  std::vector<Step> steps = draw_steps(world, hidden, machine.random);
  if (silent) {
    let_one_be_silent(machine, calls, world, steps);
  }
  about += world.text() + ", hidden " + std::to_string(hidden) + ", operations " +
           std::to_string(steps.size());
  for (u32 r = 0; r < world.ranks; r++) {
    if (!world.gone[r]) {
      Walk(calls, steps, r, machine.random).go();
    }
  }
  if (masking && !silent && machine.random.once_in(3)) {
    let_one_be_fenced(machine, calls, world);
  } else if (!masking && !PUTS && machine.random.once_in(4)) {
    let_one_be_fenced_at_reset(machine, calls, world);
  }
  machine.run();
  for (u32 r = 0; r < world.ranks; r++) {
    if (!world.gone[r] && !machine.is_dead(r)) {
      calls.check_end(r);
    }
  }
}

// A rank comes late to a dispatch or to a combine.
void observation_case(u64 seed) {
  Random first{std::mt19937_64(seed)};
  World world(first);
  u32 hidden = 128 * first.between(1, 8);
  Machine machine(seed, PUTS ? 2 * world.ranks : world.ranks);
  LowLatencyCalls calls(machine, world, seed, hidden, false);
  calls.tile_tokens = machine.random.between(1, 2 * world.max_tokens);
  ObservedWaits observed(machine, world.ranks);
  for (u32 r = 0; r < world.ranks; r++) {
    if (!world.gone[r]) {
      observed.add(r, calls.controls[r], world.locals[r]);
    }
  }
  u32 late = machine.random.below(world.ranks);
  about += world.text() + ", hidden " + std::to_string(hidden) + ", late rank " + std::to_string(late);
  if (world.gone[late]) {
    return;
  }
  Encoding encoding{BF16_ROWS, hidden, 1};
  auto dispatch = std::make_shared<LatencyDispatch>(world, encoding, machine.random);
  auto combine = machine.random.once_in(2) ? nullptr : std::make_shared<LatencyCombine>(dispatch, machine.random);
  u32 launches = 0;
  std::vector<std::shared_ptr<LatencyCall>> sent(world.ranks);
  for (u32 r = 0; r < world.ranks; r++) {
    if (world.gone[r]) {
      continue;
    }
    sent[r] = calls.send(dispatch, r, true);
    launches = r == late && combine != nullptr ? machine.waiting(r) : launches;
    if (combine != nullptr) {
      calls.send(combine, r, sent[r], true);
    }
  }
  machine.stop(late, launches);
  observed.run(late);
  observed.check(late, combine == nullptr);
  for (u32 r = 0; r < world.ranks; r++) {
    for (u32 l = 0; !world.gone[r] && !dispatch->rank_major && l < world.locals[r]; l++) {
      expect(observed.tokens(r, l), (u64)sent[r]->p.row_counts[l], "tokens of expert", r, l);
    }
    if (!world.gone[r]) {
      calls.check_end(r);
    }
  }
}

#if EP4J_INTERNODE == EP4J_INTERNODE_MAPPED
// Of up to three blocks that publish, two share a word.
void shared_words_case(u64 seed) {
  units = 2;
  low_latency_case(seed);
}

void hasty_case(u64 seed) {
  units = 1;
  hasty = true;
  low_latency_case(seed);
}
#endif

const Worlds worlds = {
    {"low_latency_world", low_latency_case},
    {"low_latency_observation_world", observation_case},
    {"low_latency_mapped_observation_world", observation_case},
    {"low_latency_puts_observation_world", observation_case},
#if EP4J_INTERNODE == EP4J_INTERNODE_MAPPED
    {"low_latency_shared_words_world", shared_words_case},
    {"low_latency_rank_major_shared_words_world", shared_words_case},
    {"low_latency_hasty_world", hasty_case},
#endif
};

}  // namespace emulator
