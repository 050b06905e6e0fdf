/* High throughput against the model. */
#ifndef THROUGHPUT_H
#define THROUGHPUT_H

#include "check.h"
#include "model.h"

/* The memory of a rank, which may be one of several threads. */
typedef struct inputs {
  int rank;
  int ranks;
  int tokens;
  uint16_t rows[MAX_TOKENS * HIDDEN];
  int64_t ids[MAX_TOKENS * TOP_K];
  float weights[MAX_TOKENS * TOP_K];
  uint8_t bytes[MAX_TOKENS * HIDDEN];
  float scales[4 * (MAX_TOKENS + 3)];
  uint16_t out[MAX_TOKENS * HIDDEN];
  uint16_t expert_rows[EXPERTS * MAX_RANKS * MAX_TOKENS * HIDDEN];
} inputs;

static inline void fill_inputs(inputs *in, int rank, int ranks) {
  int t, h, k;
  in->rank = rank;
  in->ranks = ranks;
  in->tokens = tokens_of(rank, ranks);
  for (t = 0; t < in->tokens; t++) {
    for (h = 0; h < HIDDEN; h++) {
      in->rows[t * HIDDEN + h] = bf16_of((float)value_of(rank, t, h));
    }
    for (k = 0; k < TOP_K; k++) {
      in->ids[t * TOP_K + k] = expert_of(rank, t, k);
      in->weights[t * TOP_K + k] = weight_of(t, k);
    }
  }
}

/* The configuration of all buffers. */
static inline ep4j_buffer_config config_of(void) {
  ep4j_buffer_config config;
  memset(&config, 0, sizeof config);
  config.size = sizeof config;
  config.hidden = HIDDEN;
  config.top_k = TOP_K;
  config.experts = EXPERTS;
  config.max_tokens = MAX_TOKENS;
  config.layouts = EP4J_LAYOUT_FLAT | EP4J_LAYOUT_EXPERT_MAJOR;
  config.low_latency_max_tokens = MAX_TOKENS;
  config.timeout_ms = 20000;
  config.engine = getenv("EP4J_TEST_ENGINE") == NULL ? "host" : getenv("EP4J_TEST_ENGINE");
  return config;
}

static inline ep4j_tensor matrix(const void *data, int32_t dtype, int64_t rows, int64_t columns) {
  return ep4j_tensor_at(data, dtype, EP4J_HOST, rows, columns, 0);
}

static inline ep4j_dispatch_args dispatch_args(const inputs *in) {
  ep4j_dispatch_args args;
  memset(&args, 0, sizeof args);
  args.size = sizeof args;
  args.x = matrix(in->rows, EP4J_BF16, in->tokens, HIDDEN);
  args.topk_idx = matrix(in->ids, EP4J_INT64, in->tokens, TOP_K);
  args.topk_weights = matrix(in->weights, EP4J_FP32, in->tokens, TOP_K);
  return args;
}

/* Copies a tensor of a GPU to the host, with its strides; the program ends before memory matters. */
static inline void fetch(ep4j_tensor *tensor) {
  static const int64_t BITS[] = {0, 16, 16, 32, 8, 4, 32, 64, 8, 8};
  ep4j_tensor bytes;
  int64_t elements = 1;
  int d;
  if (tensor->dimensions == 0 || tensor->device == EP4J_HOST) {
    return;
  }
  for (d = 0; d < tensor->dimensions; d++) {
    elements = tensor->shape[d] == 0 ? 0 : elements + (tensor->shape[d] - 1) * tensor->strides[d];
    if (elements == 0) {
      break;
    }
  }
  bytes = ep4j_tensor_at(tensor->data, EP4J_UINT8, tensor->device, elements * BITS[tensor->dtype] / 8, 0, 0);
  tensor->data = malloc((size_t)bytes.shape[0] + 1);
  tensor->device = EP4J_HOST;
  CHECK(tensor->data != NULL);
  OK(ep4j->tensor_read(&bytes, tensor->data));
}

/* A result whose tensors the host can read. */
static inline ep4j_dispatch_result seen(const ep4j_dispatch_result *got) {
  ep4j_dispatch_result copy = *got;
  ep4j_tensor *tensors[] = {&copy.x, &copy.scales, &copy.topk_idx, &copy.topk_weights,
                            &copy.row_weights, &copy.source_tokens, &copy.source_ranks,
                            &copy.aligned_counts, &copy.counts, &copy.rank_offsets,
                            &copy.expert_offsets};
  size_t i;
  for (i = 0; i < sizeof tensors / sizeof *tensors; i++) {
    fetch(tensors[i]);
  }
  return copy;
}

static inline int is_tensor(ep4j_tensor tensor, int32_t dtype, int64_t d0, int64_t d1) {
  int matrix_like = d1 >= 0;
  return tensor.dimensions == (matrix_like ? 2 : 1) && tensor.dtype == dtype &&
         tensor.device == EP4J_HOST && tensor.shape[0] == d0 &&
         (!matrix_like || (tensor.shape[1] == d1 && tensor.strides[0] == d1)) &&
         tensor.strides[matrix_like] == 1;
}

static inline int has_values(const uint16_t *row, int source, int token, int factor) {
  int h;
  for (h = 0; h < HIDDEN; h++) {
    if (float_of(row[h]) != (float)(factor * value_of(source, token, h))) {
      return 0;
    }
  }
  return 1;
}

/* Rows of a FLAT dispatch in order of source rank and token, with choices and weights. */
static inline void check_flat(const inputs *in, const ep4j_dispatch_result *result, int cached) {
  ep4j_dispatch_result copy = seen(result);
  const ep4j_dispatch_result *got = &copy;
  int source, t, k;
  int64_t n = 0;
  int local = EXPERTS / in->ranks;
  int32_t counts[EXPERTS] = {0};
  for (source = 0; source < in->ranks; source++) {
    CHECK(((int64_t *)got->rank_offsets.data)[source] == n);
    for (t = 0; t < tokens_of(source, in->ranks); t++) {
      if (!goes_to(source, t, in->rank, in->ranks)) {
        continue;
      }
      CHECK(n < got->rows);
      CHECK(((int32_t *)got->source_ranks.data)[n] == source);
      CHECK(((int32_t *)got->source_tokens.data)[n] == t);
      CHECK(has_values((uint16_t *)got->x.data + n * HIDDEN, source, t, 1));
      for (k = 0; k < TOP_K; k++) {
        int64_t expert = expert_of(source, t, k);
        int here = expert >= 0 && owner_of(expert, in->ranks) == in->rank;
        if (here) {
          counts[expert - in->rank * local]++;
        }
        if (!cached) {
          CHECK(((int64_t *)got->topk_idx.data)[n * TOP_K + k] ==
                (here ? expert - in->rank * local : -1));
          CHECK(((float *)got->topk_weights.data)[n * TOP_K + k] == (here ? weight_of(t, k) : 0.0f));
        }
      }
      n++;
    }
  }
  CHECK(got->rows == n && got->received_rows == n && got->missing_rows == 0);
  CHECK(((int64_t *)got->rank_offsets.data)[in->ranks] == n);
  CHECK(is_tensor(got->x, EP4J_BF16, n, HIDDEN));
  CHECK(is_tensor(got->counts, EP4J_INT32, local, -1));
  for (k = 0; k < local; k++) {
    CHECK(((int32_t *)got->counts.data)[k] == counts[k]);
  }
}

/* Each row counts once per rank that it went to. */
static inline void check_flat_sums(const inputs *in, ep4j_tensor sums) {
  int t, rank;
  fetch(&sums);
  CHECK(is_tensor(sums, EP4J_BF16, in->tokens, HIDDEN));
  for (t = 0; t < in->tokens; t++) {
    int holders = 0;
    for (rank = 0; rank < in->ranks; rank++) {
      holders += goes_to(in->rank, t, rank, in->ranks);
    }
    CHECK(has_values((uint16_t *)sums.data + t * HIDDEN, in->rank, t, holders));
  }
}

static inline void combine_flat(ep4j_buffer buffer, const inputs *in, ep4j_tensor y, ep4j_handle handle) {
  ep4j_combine_args args;
  ep4j_combine_result sums = {sizeof sums};
  memset(&args, 0, sizeof args);
  args.size = sizeof args;
  args.y = y;
  args.handle = handle;
  OK(ep4j->combine(buffer, &args, &sums));
  check_flat_sums(in, sums.x);
  CHECK(sums.topk_weights.dimensions == 0 && sums.event == 0);
}

static inline void flat(ep4j_buffer buffer, const inputs *in) {
  ep4j_dispatch_args args = dispatch_args(in);
  ep4j_dispatch_result got = {sizeof got};
  ep4j_dispatch_result again = {sizeof again};
  ep4j_tensor input;
  OK(ep4j->dispatch(buffer, &args, &got));
  check_flat(in, &got, 0);
  combine_flat(buffer, in, got.x, got.handle);
  /* Along the same routes; a row of the caller's own memory for the results. */
  memset(&args.topk_idx, 0, 2 * sizeof args.topk_idx);
  args.handle = got.handle;
  OK(ep4j->dispatch(buffer, &args, &again));
  CHECK(again.handle == got.handle && again.topk_idx.dimensions == 0);
  CHECK(again.counts.dimensions == 0);
  OK(ep4j->dispatch_result(again.result, &again));
  check_flat(in, &again, 1);
  OK(ep4j->combine_input(again.result, EP4J_BF16, &input));
  CHECK(input.shape[0] >= again.rows && input.shape[1] == HIDDEN);
  input.shape[0] = again.rows;
  OK(ep4j->tensor_write(&input, seen(&again).x.data));
  combine_flat(buffer, in, input, got.handle);
  OK(ep4j->close(got.handle));
  OK(ep4j->close(got.handle));
  FAILS(1040, ep4j->dispatch(buffer, &args, &again));
}

static inline void asynchronous(ep4j_buffer buffer, const inputs *in) {
  ep4j_dispatch_args args = dispatch_args(in);
  ep4j_dispatch_result got = {sizeof got};
  ep4j_combine_args back;
  ep4j_combine_result sums = {sizeof sums};
  int32_t done = 0;
  args.execution.async = 1;
  OK(ep4j->dispatch(buffer, &args, &got));
  CHECK(got.event != 0 && got.handle == 0 && got.x.dimensions == 0);
  OK(ep4j->event_wait(got.event, -1, &done));
  CHECK(done == 1);
  OK(ep4j->event_query(got.event, &done));
  CHECK(done == 1);
  memset(&back, 0, sizeof back);
  back.size = sizeof back;
  back.execution.async = 1;
  back.execution.previous = got.event;
  OK(ep4j->dispatch_result(got.result, &got));
  check_flat(in, &got, 0);
  back.y = got.x;
  back.handle = got.handle;
  OK(ep4j->combine(buffer, &back, &sums));
  OK(ep4j->close(back.execution.previous));
  CHECK(sums.event != 0 && sums.x.dimensions == 0);
  OK(ep4j->event_wait(sums.event, 20000, &done));
  CHECK(done == 1);
  OK(ep4j->close(sums.event));
  FAILS(1040, ep4j->event_query(sums.event, &done));
  OK(ep4j->combine_result(sums.result, &sums));
  check_flat_sums(in, sums.x);
  OK(ep4j->close(got.handle));
}

/* FP8 rows and scales are opaque bytes. Scales are given by columns, and received both ways. */
static inline void scaled(ep4j_buffer buffer, inputs *in, int columns) {
  uint8_t *rows = in->bytes;
  float *scales = in->scales;
  ep4j_dispatch_args args = dispatch_args(in);
  ep4j_dispatch_result got = {sizeof got};
  int64_t n;
  int t, h, s;
  int length = in->tokens + 3;
  for (t = 0; t < in->tokens; t++) {
    for (h = 0; h < HIDDEN; h++) {
      rows[t * HIDDEN + h] = (uint8_t)(in->rank * 50 + t * 3 + h);
    }
    for (s = 0; s < 4; s++) {
      scales[s * length + t] = (float)(in->rank * 100 + t * 10 + s);
    }
  }
  args.x = matrix(rows, EP4J_FP8_E4M3, in->tokens, HIDDEN);
  args.scales = matrix(scales, EP4J_FP32, in->tokens, 4);
  args.scales.strides[0] = 1;
  args.scales.strides[1] = length;
  args.scale_columns = columns;
  OK(ep4j->dispatch(buffer, &args, &got));
  got = seen(&got);
  CHECK(got.scales.shape[0] == got.rows && got.scales.shape[1] == 4);
  CHECK(got.rows < 2 || got.scales.strides[columns ? 0 : 1] == 1);
  for (n = 0; n < got.rows; n++) {
    int source = ((int32_t *)got.source_ranks.data)[n];
    t = ((int32_t *)got.source_tokens.data)[n];
    for (h = 0; h < HIDDEN; h++) {
      CHECK(((uint8_t *)got.x.data)[n * HIDDEN + h] == (uint8_t)(source * 50 + t * 3 + h));
    }
    for (s = 0; s < 4; s++) {
      CHECK(((float *)got.scales.data)[n * got.scales.strides[0] + s * got.scales.strides[1]] ==
            (float)(source * 100 + t * 10 + s));
    }
  }
  OK(ep4j->close(got.handle));
}

static inline void check_weighted_sums(const inputs *in, const uint16_t *sums) {
  int t, k, h;
  for (t = 0; t < in->tokens; t++) {
    float factor = 1;
    for (k = 0; k < TOP_K; k++) {
      factor += expert_of(in->rank, t, k) < 0 ? 0 : weight_of(t, k);
    }
    for (h = 0; h < HIDDEN; h++) {
      CHECK(float_of(sums[t * HIDDEN + h]) == factor * (float)value_of(in->rank, t, h));
    }
  }
}

/* A row per token and expert; combine applies the weights. */
static inline void grouped(ep4j_buffer buffer, inputs *in) {
  ep4j_dispatch_args args = dispatch_args(in);
  ep4j_dispatch_result got = {sizeof got};
  ep4j_combine_args back;
  ep4j_combine_result sums = {sizeof sums};
  uint16_t *out = in->out;
  int local = EXPERTS / in->ranks;
  int expert, source, t, k;
  memset(&back, 0, sizeof back);
  back.size = sizeof back;
  args.layout = EP4J_EXPERT_MAJOR;
  args.expert_alignment = 4;
  args.zero_padding = 1;
  OK(ep4j->dispatch(buffer, &args, &got));
  back.y = got.x;
  got = seen(&got);
  CHECK(is_tensor(got.expert_offsets, EP4J_INT64, local + 1, -1));
  CHECK(got.topk_idx.dimensions == 0 && got.rank_offsets.dimensions == 0);
  for (expert = 0; expert < local; expert++) {
    int64_t n = ((int64_t *)got.expert_offsets.data)[expert];
    int32_t count = 0;
    CHECK(n % 4 == 0);
    for (source = 0; source < in->ranks; source++) {
      for (t = 0; t < tokens_of(source, in->ranks); t++) {
        for (k = 0; k < TOP_K; k++) {
          if (expert_of(source, t, k) == in->rank * local + expert) {
            CHECK(has_values((uint16_t *)got.x.data + n * HIDDEN, source, t, 1));
            CHECK(((float *)got.row_weights.data)[n] == weight_of(t, k));
            n++;
            count++;
          }
        }
      }
    }
    CHECK(((int32_t *)got.counts.data)[expert] == count);
    CHECK(((int32_t *)got.aligned_counts.data)[expert] == (count + 3) / 4 * 4);
  }
  back.handle = got.handle;
  back.apply_weights = 1;
  back.bias0 = matrix(in->rows, EP4J_BF16, in->tokens, HIDDEN);
  back.out = matrix(out, EP4J_BF16, in->tokens, HIDDEN);
  OK(ep4j->combine(buffer, &back, &sums));
  CHECK(sums.x.data == out);
  check_weighted_sums(in, out);
  OK(ep4j->close(got.handle));
}

/* Sums in ascending order of experts, which the ids of logical experts give. */
static inline void by_experts(ep4j_buffer buffer, inputs *in) {
  ep4j_dispatch_args args = dispatch_args(in);
  ep4j_dispatch_result got = {sizeof got};
  ep4j_combine_args back;
  ep4j_combine_result sums = {sizeof sums};
  memset(&back, 0, sizeof back);
  back.size = sizeof back;
  back.by_experts = 1;
  OK(ep4j->dispatch(buffer, &args, &got));
  back.y = got.x;
  back.handle = got.handle;
  FAILS(1422, ep4j->combine(buffer, &back, &sums));
  OK(ep4j->close(got.handle));
  args.layout = EP4J_EXPERT_MAJOR;
  args.logical_idx = matrix(in->ids, EP4J_INT64, in->tokens, TOP_K - 1);
  FAILS(1022, ep4j->dispatch(buffer, &args, &got));
  args.logical_idx = args.topk_idx;
  OK(ep4j->dispatch(buffer, &args, &got));
  back.y = got.x;
  back.handle = got.handle;
  back.apply_weights = 1;
  back.bias0 = matrix(in->rows, EP4J_BF16, in->tokens, HIDDEN);
  back.out = matrix(in->out, EP4J_BF16, in->tokens, HIDDEN);
  OK(ep4j->combine(buffer, &back, &sums));
  check_weighted_sums(in, in->out);
  OK(ep4j->close(got.handle));
}

/* The caller fixes the number of rows: too few, so rows are missing. */
static inline void fixed_rows(ep4j_buffer buffer, const inputs *in) {
  ep4j_dispatch_args args = dispatch_args(in);
  ep4j_dispatch_result got = {sizeof got};
  args.max_rows = 2;
  OK(ep4j->dispatch(buffer, &args, &got));
  CHECK(got.rows == 2 && is_tensor(seen(&got).x, EP4J_BF16, 2, HIDDEN) && got.counts.dimensions == 0);
  OK(ep4j->dispatch_result(got.result, &got));
  CHECK(got.received_rows > 2 && got.missing_rows == got.received_rows - 2);
  OK(ep4j->close(got.handle));
}

/* The same counts in memory of the program. */
static inline void count_without_buffer(const ep4j_tensor *ids, const inputs *in,
                                        const ep4j_layout_result *traffic) {
  int32_t node_of_rank[MAX_RANKS] = {0};
  int32_t per_rank[MAX_RANKS] = {9}, per_node[1] = {9}, per_expert[EXPERTS] = {9};
  uint8_t in_rank[MAX_TOKENS * MAX_RANKS] = {9};
  ep4j_routing_counter counter;
  ep4j_layout_result counts = {sizeof counts};
  int i;
  counts.tokens_per_rank = ep4j_tensor_at(per_rank, EP4J_INT32, EP4J_HOST, in->ranks, 0, 0);
  counts.tokens_per_node = ep4j_tensor_at(per_node, EP4J_INT32, EP4J_HOST, 1, 0, 0);
  counts.tokens_per_expert = ep4j_tensor_at(per_expert, EP4J_INT32, EP4J_HOST, EXPERTS, 0, 0);
  counts.token_in_rank = matrix(in_rank, EP4J_UINT8, in->tokens, in->ranks);
  OK(ep4j->routing_counter_open(EP4J_HOST, node_of_rank, in->ranks, &counter));
  OK(ep4j->routing_counter_count(counter, ids, 0, &counts));
  for (i = 0; i < EXPERTS; i++) {
    CHECK(per_expert[i] == ((int32_t *)traffic->tokens_per_expert.data)[i]);
  }
  CHECK(memcmp(per_rank, traffic->tokens_per_rank.data, in->ranks * sizeof *per_rank) == 0);
  CHECK(memcmp(in_rank, traffic->token_in_rank.data, (size_t)in->tokens * in->ranks) == 0);
  counts.tokens_per_expert.dtype = EP4J_FP32;
  FAILS(1400, ep4j->routing_counter_count(counter, ids, 0, &counts));
  OK(ep4j->close(counter));
  FAILS(1040, ep4j->routing_counter_count(counter, ids, 0, &counts));
  FAILS(1042, ep4j->routing_counter_open(EP4J_HOST, node_of_rank, 0, &counter));
}

static inline void layout(ep4j_buffer buffer, const inputs *in) {
  ep4j_layout_result traffic = {sizeof traffic};
  ep4j_tensor ids = matrix(in->ids, EP4J_INT64, in->tokens, TOP_K);
  int rank, t;
  OK(ep4j->dispatch_layout(buffer, &ids, 0, &traffic));
  fetch(&traffic.tokens_per_expert);
  fetch(&traffic.tokens_per_rank);
  fetch(&traffic.token_in_rank);
  CHECK(is_tensor(traffic.tokens_per_expert, EP4J_INT32, EXPERTS, -1));
  for (rank = 0; rank < in->ranks; rank++) {
    int32_t count = 0;
    for (t = 0; t < in->tokens; t++) {
      int goes = goes_to(in->rank, t, rank, in->ranks);
      CHECK(((uint8_t *)traffic.token_in_rank.data)[t * in->ranks + rank] == goes);
      count += goes;
    }
    CHECK(((int32_t *)traffic.tokens_per_rank.data)[rank] == count);
  }
  count_without_buffer(&ids, in, &traffic);
}

/* Dense matrices to choices and back. */
static inline void dense(const inputs *in) {
  uint8_t map[MAX_TOKENS * EXPERTS] = {0};
  float probs[MAX_TOKENS * EXPERTS] = {0};
  float back[MAX_TOKENS * EXPERTS];
  int64_t ids[MAX_TOKENS * TOP_K];
  float weights[MAX_TOKENS * TOP_K];
  ep4j_tensor map_tensor = matrix(map, EP4J_UINT8, 5, EXPERTS);
  ep4j_tensor probs_tensor = matrix(probs, EP4J_FP32, 5, EXPERTS);
  ep4j_tensor back_tensor = matrix(back, EP4J_FP32, 5, EXPERTS);
  ep4j_tensor id_tensor = matrix(ids, EP4J_INT64, 5, TOP_K);
  ep4j_tensor weight_tensor = matrix(weights, EP4J_FP32, 5, TOP_K);
  int t, k;
  for (t = 0; t < 5; t++) {
    for (k = 0; k < TOP_K; k++) {
      int64_t expert = expert_of(in->rank, t, k);
      if (expert >= 0) {
        map[t * EXPERTS + expert] = 1;
        probs[t * EXPERTS + expert] = weight_of(t, k);
      }
    }
  }
  OK(ep4j->routing_from_dense(&map_tensor, &probs_tensor, &id_tensor, &weight_tensor));
  for (t = 0; t < 5; t++) {
    CHECK(ids[t * TOP_K] >= 0 && map[t * EXPERTS + ids[t * TOP_K]] == 1);
    CHECK(ids[t * TOP_K + 1] > ids[t * TOP_K]);
  }
  OK(ep4j->routing_to_dense(&id_tensor, &weight_tensor, &back_tensor));
  CHECK(memcmp(back, probs, 5 * EXPERTS * sizeof(float)) == 0);
}

#endif
