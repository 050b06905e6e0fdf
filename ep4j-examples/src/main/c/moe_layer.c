/* An MoE layer of 8 experts, top-2: each multiplies rows by its number. docs/c.md builds and runs it. */
#define EP4J_IMPLEMENTATION
#include "ep4j.h"

enum { TOKENS = 4, HIDDEN = 16, TOP_K = 2, EXPERTS = 8 };

static const ep4j_api *ep4j;

static void ok(int32_t status) {
  if (status != 0) {
    ep4j_error error = {sizeof error, 0, 0, 0, 0, {0}};
    ep4j->last_error(&error);
    fprintf(stderr, "%s\n", error.text);
    exit(1);
  }
}

int main(void) {
  static float x[TOKENS * HIDDEN];
  static const int64_t experts[TOKENS * TOP_K] = {0, 7, 1, 6, 2, 5, 3, 4};
  static const float weights[TOKENS * TOP_K] = {.5f, .5f, .5f, .5f, .5f, .5f, .5f, .5f};
  ep4j_buffer_config config = {sizeof config, HIDDEN, TOP_K, EXPERTS, 0, NULL, TOKENS, EP4J_FP32};
  ep4j_buffer_info info = {sizeof info};
  ep4j_dispatch_args send = {sizeof send};
  ep4j_dispatch_result got = {sizeof got};
  ep4j_combine_args back = {sizeof back};
  ep4j_combine_result sums = {sizeof sums};
  ep4j_group group;
  ep4j_buffer buffer;
  ep4j_error error;
  if (ep4j_start(&ep4j, &error) != 0) {
    fprintf(stderr, "%s\n", error.text);
    return 1;
  }
  config.layouts = EP4J_LAYOUT_EXPERT_MAJOR; /* of the dispatches below */
  ok(ep4j->group_from_environment(&group));
  ok(ep4j->buffer_open(group, &config, &buffer));
  ok(ep4j->buffer_info(buffer, &info));
  for (int i = 0; i < TOKENS * HIDDEN; i++) x[i] = (float)(i / HIDDEN + 1);
  send.x = ep4j_tensor_at(x, EP4J_FP32, EP4J_HOST, TOKENS, HIDDEN, 0);
  send.topk_idx = ep4j_tensor_at(experts, EP4J_INT64, EP4J_HOST, TOKENS, TOP_K, 0);
  send.topk_weights = ep4j_tensor_at(weights, EP4J_FP32, EP4J_HOST, TOKENS, TOP_K, 0);
  send.layout = EP4J_EXPERT_MAJOR; /* a row per token and expert, grouped by expert */
  ok(ep4j->dispatch(buffer, &send, &got));
  const int64_t *first = got.expert_offsets.data;
  for (int e = 0; e < info.local_experts; e++) {
    for (int64_t i = first[e] * HIDDEN; i < first[e + 1] * HIDDEN; i++) {
      ((float *)got.x.data)[i] *= (float)(info.rank * info.local_experts + e);
    }
  }
  back.y = got.x;
  back.handle = got.handle;
  back.apply_weights = 1;
  ok(ep4j->combine(buffer, &back, &sums));
  for (int t = 0; t < TOKENS; t++) printf("token %d: %g\n", t, ((float *)sums.x.data)[t * HIDDEN]);
  ok(ep4j->close(got.handle));
  ok(ep4j->close(buffer));
  ok(ep4j->close(group));
  return 0;
}
