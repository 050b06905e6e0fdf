/* Ranks that are late, die, and are replaced. */
#ifndef RECOVERY_H
#define RECOVERY_H

#include <signal.h>
#include <time.h>

#include "lowlatency.h"

enum { WAIT_MS = 20000 };

static inline ep4j_rank_state state_of(ep4j_group group, int32_t rank) {
  ep4j_rank_state state = {sizeof state, 0, 0, 0, 0, {0}, {0}};
  OK(ep4j->group_rank_state(group, rank, &state));
  return state;
}

/* Rank 1 kills itself; returns on the others when they have noticed. */
static inline void lose_rank_1(ep4j_group group, int rank) {
  int64_t begin;
  OK(ep4j->group_barrier(group, WAIT_MS));
  if (rank == 1) {
    raise(SIGKILL);
  }
  begin = now_ms();
  while (state_of(group, 1).alive) {
    CHECK(now_ms() - begin < WAIT_MS);
  }
}

/* The others continue as a group of their own, with new numbers and a new buffer. */
static inline void continue_as_survivors(ep4j_group group, const ep4j_buffer_config *config, int rank,
                                         int ranks) {
  ep4j_group others = 0;
  ep4j_group_info info = {sizeof info, 0, 0, 0, 0, {0}};
  ep4j_buffer buffer = 0;
  inputs *in = (inputs *)malloc(sizeof *in);
  CHECK(in != NULL);
  lose_rank_1(group, rank);
  FAILS(1041, ep4j->group_survivors(group, WAIT_MS, NULL));
  OK(ep4j->group_survivors(group, WAIT_MS, &others));
  OK(ep4j->group_info(others, &info));
  CHECK(info.ranks == ranks - 1 && info.rank == (rank == 0 ? 0 : rank - 1));
  fill_inputs(in, info.rank, info.ranks);
  OK(ep4j->buffer_open(others, config, &buffer));
  flat(buffer, in);
  OK(ep4j->close(buffer));
  OK(ep4j->close(others));
  OK(ep4j->close(group));
  free(in);
}

/* Rank 1 is replaced by the process that calls rejoin(); the others keep their buffer. */
static inline void readmit(ep4j_group group, const ep4j_buffer_config *config, int rank, int ranks) {
  ep4j_buffer buffer = 0;
  int32_t back[MAX_RANKS] = {-1, -1, -1, -1};
  int32_t count = 0;
  int64_t begin;
  inputs *in = (inputs *)malloc(sizeof *in);
  CHECK(in != NULL);
  fill_inputs(in, rank, ranks);
  OK(ep4j->buffer_open(group, config, &buffer));
  flat(buffer, in);
  lose_rank_1(group, rank);
  begin = now_ms();
  while (!state_of(group, 1).has_replacement) {
    CHECK(now_ms() - begin < WAIT_MS);
  }
  FAILS(1041, ep4j->group_readmit(group, WAIT_MS, back, MAX_RANKS, NULL));
  OK(ep4j->group_readmit(group, WAIT_MS, back, MAX_RANKS, &count));
  CHECK(count == 1 && back[0] == 1 && back[1] == -1);
  OK(ep4j->buffer_readmit(buffer));
  CHECK(state_of(group, 1).alive && state_of(group, 1).incarnation == 1);
  flat(buffer, in);
  OK(ep4j->close(buffer));
  OK(ep4j->close(group));
  free(in);
}

/* The process that replaces rank 1. */
static inline void rejoin(const ep4j_buffer_config *config, int ranks, int port, const char *secret) {
  ep4j_group_config place;
  ep4j_group group = 0;
  ep4j_buffer buffer = 0;
  struct timespec pause = {0, 50000000};
  int64_t begin;
  inputs *in = (inputs *)malloc(sizeof *in);
  CHECK(in != NULL);
  memset(&place, 0, sizeof place);
  place.size = sizeof place;
  place.rank = 1;
  place.ranks = ranks;
  place.port = port;
  place.secret = secret;
  place.join_timeout_ms = WAIT_MS;
  FAILS(1041, ep4j->group_rejoin(&place, NULL));
  begin = now_ms();
  /* Refused as long as the group has not formed, or rank 1 is alive. */
  while (ep4j->group_rejoin(&place, &group) == 3020) {
    CHECK(now_ms() - begin < WAIT_MS);
    nanosleep(&pause, NULL);
  }
  CHECK(group != 0);
  CHECK(state_of(group, 1).incarnation == 1);
  OK(ep4j->buffer_rejoin(group, config, &buffer));
  fill_inputs(in, 1, ranks);
  flat(buffer, in);
  OK(ep4j->close(buffer));
  OK(ep4j->close(group));
  free(in);
}

/* Rank 1 comes after the timeout: the others have masked it, and continue; then all are there again. */
static inline void mask_a_late_rank(ep4j_group group, const ep4j_buffer_config *like, int rank, int ranks) {
  ep4j_buffer_config config = *like;
  ep4j_buffer buffer = 0;
  ep4j_low_latency_dispatch_args args;
  ep4j_low_latency_dispatch_result got = {sizeof got};
  variant plain = {EP4J_ROWS_BF16, 0, 0, 0, 0, 0};
  int64_t waited[MAX_RANKS] = {0};
  int32_t received[EXPERTS] = {0};
  int32_t total = 0;
  int32_t masked = 7;
  int64_t begin;
  int e;
  inputs *in = (inputs *)malloc(sizeof *in);
  CHECK(in != NULL);
  fill_inputs(in, rank, ranks);
  config.masking = 1;
  config.timeout_ms = 3000;
  OK(ep4j->buffer_open(group, &config, &buffer));
  memset(&args, 0, sizeof args);
  args.size = sizeof args;
  args.x = matrix(in->rows, EP4J_BF16, in->tokens, HIDDEN);
  args.topk_idx = matrix(in->ids, EP4J_INT64, in->tokens, TOP_K);
  args.format = EP4J_ROWS_BF16;
  args.wait_stats = ep4j_tensor_at(waited, EP4J_INT64, EP4J_HOST, ranks, 0, 0);
  args.cumulative_stats = ep4j_tensor_at(received, EP4J_INT32, EP4J_HOST, EXPERTS / ranks, 0, 0);
  if (rank != 1) {
    begin = now_ms();
    OK(ep4j->low_latency_dispatch(buffer, &args, &got));
    CHECK(now_ms() - begin >= 2900);
    CHECK(waited[1] >= 2900000000ll && waited[rank] < 1000000000ll);
    OK(ep4j->mask_get(buffer, 1, &masked));
    CHECK(masked == 1);
    fetch(&got.counts);
    for (e = 0; e < EXPERTS / ranks; e++) {
      CHECK(received[e] == ((int32_t *)got.counts.data)[e]);
      total += received[e];
    }
    CHECK(total > 0);
  }
  OK(ep4j->group_barrier(group, WAIT_MS));
  OK(ep4j->mask_clear(buffer));
  OK(ep4j->mask_get(buffer, 1, &masked));
  CHECK(masked == 0);
  OK(ep4j->group_barrier(group, WAIT_MS));
  low_latency(buffer, in, plain);
  low_latency(buffer, in, plain);
  OK(ep4j->close(buffer));
  OK(ep4j->close(group));
  free(in);
}

#endif
