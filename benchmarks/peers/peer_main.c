#include <mpi.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ceilings.h"
#include "clock.h"
#include "peer.h"
#include "timing.h"

/* The same result on all ranks: a failure on one rank fails all. */
static bool all(bool mine) {
  int right = mine;
  MPI_Allreduce(MPI_IN_PLACE, &right, 1, MPI_INT, MPI_LAND, MPI_COMM_WORLD);
  return right;
}

static bool verify_set(const workload* w, const peer* p, void* state, int set) {
  const received r = p->dispatch(state, set);
  bool right = verify_dispatch(w, set, &r);
  memset(w->sets[set].combined, 0xFF, w->options.tokens * workload_row_bytes(w));
  p->combine(state, set);
  right = verify_combine(w, set) && right;
  return all(right);
}

/* Gives the ranks a common start, then times one call. */
#define TIMED(ns, call)                \
  do {                                 \
    MPI_Barrier(MPI_COMM_WORLD);       \
    const int64_t start_ = clock_ns(); \
    call;                              \
    (ns) = clock_ns() - start_;        \
  } while (0)

static void run_timed(const workload* w, const peer* p, void* state, timing* dispatch,
                      timing* combine) {
  const options* o = &w->options;
  for (int i = 0; i < o->warmup + o->iterations; i++) {
    const int set = i % o->buffers;
    int64_t dispatch_ns, combine_ns;
    TIMED(dispatch_ns, p->dispatch(state, set));
    TIMED(combine_ns, p->combine(state, set));
    if (i < o->warmup) continue;
    dispatch->ns[i - o->warmup] = dispatch_ns;
    combine->ns[i - o->warmup] = combine_ns;
  }
}

static bool run(const workload* w, const peer* p, const char* variant) {
  const options* o = &w->options;
  void* state = p->open(w);
  for (int b = 0; b < o->buffers; b++) workload_expert_rows(w, b, p->expert_rows(state, b));
  MPI_Barrier(MPI_COMM_WORLD);
  bool right = true;
  for (int b = 0; right && b < o->buffers; b++) right = verify_set(w, p, state, b);
  if (right) {
    timing dispatch, combine;
    timing_open(&dispatch, o->iterations);
    timing_open(&combine, o->iterations);
    run_timed(w, p, state, &dispatch, &combine);
    timing_finish(&dispatch);
    timing_finish(&combine);
    if (w->world.rank == 0) {
      const double bytes = w->mean_recv_rows * workload_row_bytes(w);
      timing_print(&dispatch, w, p->name, variant, "dispatch", bytes);
      timing_print(&combine, w, p->name, variant, "combine", bytes);
    }
    timing_close(&dispatch);
    timing_close(&combine);
    right = verify_set(w, p, state, 0); /* still right after many operations */
  }
  p->close(state);
  return right;
}

static int cores(void) {
  cpu_set_t allowed;
  if (sched_getaffinity(0, sizeof allowed, &allowed) == 0) return CPU_COUNT(&allowed);
  return (int)sysconf(_SC_NPROCESSORS_ONLN);
}

int peer_main(int argc, char** argv, const peer* p) {
  MPI_Init(&argc, &argv);
  world here = {.cores = cores()};
  MPI_Comm_rank(MPI_COMM_WORLD, &here.rank);
  MPI_Comm_size(MPI_COMM_WORLD, &here.ranks);
  options o;
  char problem[OPTIONS_PROBLEM];
  if (!options_parse(&o, argc, argv, here.ranks, p->variants, problem)) {
    if (here.rank == 0) fputs(problem, stderr); /* all parse the same; one reports */
    MPI_Finalize();
    return 2;
  }
  char best[32];
  snprintf(best, sizeof best, "%.*s", (int)strcspn(p->variants, " "), p->variants);
  if (o.variant == NULL) o.variant = best;
  workload w;
  workload_open(&w, here, &o);
  const bool right = run(&w, p, o.variant);
  if (right && o.ceilings) ceilings_run(&w);
  workload_close(&w);
  MPI_Finalize();
  return right ? 0 : 1;
}
