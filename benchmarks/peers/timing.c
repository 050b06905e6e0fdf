#include "timing.h"

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

#include "bf16_sum.h"

void timing_open(timing* t, int count) {
  *t = (timing){.count = count, .ns = calloc(count, sizeof *t->ns)};
  if (t->ns == NULL) {
    fprintf(stderr, "cannot hold %d durations: memory is short\n", count);
    exit(1);
  }
}

void timing_close(timing* t) { free(t->ns); }

static int ascending(const void* a, const void* b) {
  const int64_t x = *(const int64_t*)a, y = *(const int64_t*)b;
  return (x > y) - (x < y);
}

void timing_finish(timing* t) {
  MPI_Allreduce(MPI_IN_PLACE, t->ns, t->count, MPI_INT64_T, MPI_MAX, MPI_COMM_WORLD);
  qsort(t->ns, t->count, sizeof *t->ns, ascending);
}

/* The smallest recorded duration that at least this share of all durations does not exceed. */
static double quantile_us(const timing* t, double share) {
  int at = (int)(share * t->count);
  if (at == share * t->count && at > 0) at--;
  return t->ns[at < t->count ? at : t->count - 1] / 1e3;
}

static double median_us(const timing* t) {
  const int half = t->count / 2;
  return (t->count % 2 != 0 ? t->ns[half] : (t->ns[half - 1] + t->ns[half]) / 2.0) / 1e3;
}

void timing_print(const timing* t, const workload* w, const char* peer, const char* variant,
                  const char* op, double bytes) {
  const options* o = &w->options;
  const double median = median_us(t), p99 = quantile_us(t, 0.99);
  const double min = t->ns[0] / 1e3, max = t->ns[t->count - 1] / 1e3;
  const double gbps = median > 0 ? bytes / median / 1e3 : 0;
  if (o->json) {
    printf(
        "{\"peer\":\"%s\",\"variant\":\"%s\",\"op\":\"%s\",\"ranks\":%d,\"tokens\":%d,"
        "\"hidden\":%d,\"topk\":%d,\"experts\":%d,\"dtype\":\"bf16\",\"vectors\":\"%s\","
        "\"routing\":\"%s\",\"seed\":%llu,\"buffers\":%d,\"warmup\":%d,\"iterations\":%d,\"median_us\":%.2f,"
        "\"p99_us\":%.2f,\"max_us\":%.2f,\"min_us\":%.2f,\"logical_gbps\":%.3f,\"recv_rows\":%.1f}"
        "\n",
        peer, variant, op, w->world.ranks, o->tokens, o->hidden, o->topk, o->experts,
        bf16_sum_variant(), routing_name(o->routing), (unsigned long long)o->seed, o->buffers,
        o->warmup, t->count, median, p99, max, min, gbps, w->mean_recv_rows);
  } else {
    printf(
        "%-10s %-12s %-12s %s, ranks %d tokens %d: median %.1f us, p99 %.1f, min %.1f, %.2f GB/s\n",
        peer, variant, op, bf16_sum_variant(), w->world.ranks, o->tokens, median, p99, min, gbps);
  }
  fflush(stdout);
}
