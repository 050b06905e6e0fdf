/* Low latency against the model. */
#ifndef LOWLATENCY_H
#define LOWLATENCY_H

#include "throughput.h"

/* How a round trip is made. */
typedef struct variant {
  int32_t format;
  int32_t hook;
  int32_t zero_copy;
  int32_t columns;
  int32_t scale_kind;
  int32_t log_fmt;
} variant;

/* The NVFP4 rows are scaled by this before they are quantised: 448 * 6 / amax. */
#define GLOBAL_SCALE (448.0f * 6.0f / 8.0f)

static inline float e4m3(uint8_t byte) {
  int exponent = byte >> 3 & 15;
  float value = exponent == 0 ? (float)(byte & 7) / 512.0f
                              : (1.0f + (float)(byte & 7) / 8.0f) * (float)(1 << exponent) / 128.0f;
  return byte & 0x80 ? -value : value;
}

static inline float e2m1(int nibble) {
  static const float VALUES[] = {0.0f, 0.5f, 1.0f, 1.5f, 2.0f, 3.0f, 4.0f, 6.0f};
  return nibble & 8 ? -VALUES[nibble & 7] : VALUES[nibble & 7];
}

/* The scale of a received element. */
static inline float scale_of(const ep4j_low_latency_dispatch_result *got, int64_t group, int64_t row,
                             int column) {
  const ep4j_tensor *scales = &got->scales;
  int64_t block = column / (HIDDEN / scales->shape[2]);
  int64_t at = group * scales->strides[0] + row * scales->strides[1] + block * scales->strides[2];
  uint32_t bits;
  float scale;
  if (scales->dtype == EP4J_FP32) {
    return ((float *)scales->data)[at];
  }
  if (scales->dtype == EP4J_FP8_E4M3) {
    return e4m3(((uint8_t *)scales->data)[at]);
  }
  if (scales->dtype == EP4J_UE8M0) {
    CHECK(scales->shape[2] == HIDDEN / 128 && scales->strides[2] == 1);
    bits = (uint32_t)((uint8_t *)scales->data)[at] << 23;
  } else {
    CHECK(scales->dtype == EP4J_INT32 && scales->shape[2] == HIDDEN / 512);
    bits = ((uint32_t *)scales->data)[at] >> column % 512 / 128 * 8 << 24 >> 1;
  }
  memcpy(&scale, &bits, sizeof scale);
  return scale;
}

/* The value of a received element: BF16, or FP8 or NVFP4 times its scale. */
static inline float received(const ep4j_low_latency_dispatch_result *got, int64_t group, int64_t row,
                             int column) {
  int64_t index = (group * got->x.shape[1] + row) * HIDDEN + column;
  uint8_t byte;
  if (got->x.dtype == EP4J_BF16) {
    return float_of(((uint16_t *)got->x.data)[index]);
  }
  if (got->x.dtype == EP4J_NVFP4) {
    byte = ((uint8_t *)got->x.data)[index / 2];
    return e2m1(index % 2 == 0 ? byte & 15 : byte >> 4) * scale_of(got, group, row, column) /
           GLOBAL_SCALE;
  }
  CHECK(got->x.dtype == EP4J_FP8_E4M3);
  return e4m3(((uint8_t *)got->x.data)[index]) * scale_of(got, group, row, column);
}

/* A result whose tensors the host can read. */
static inline void fetch_groups(ep4j_low_latency_dispatch_result *got) {
  fetch(&got->x);
  fetch(&got->scales);
  fetch(&got->counts);
  fetch(&got->src_info);
  fetch(&got->topk_idx);
  fetch(&got->topk_weights);
}

/*
 * Checks the received rows, and writes those that the experts return: the rows as they were before
 * quantisation, times `unit`.
 */
static inline void check_groups(inputs *in, const ep4j_low_latency_dispatch_result *got, float unit) {
  int local = EXPERTS / in->ranks;
  int expert, source, t, k, h;
  /* Values are up to 8: half a step of FP8, and of NVFP4 with the error of its scale. */
  float tolerance = got->x.dtype == EP4J_BF16 ? 0.0f : got->x.dtype == EP4J_NVFP4 ? 1.9f : 0.51f;
  CHECK(got->x.dimensions == 3 && got->x.shape[0] == local && got->x.shape[2] == HIDDEN);
  CHECK(got->x.shape[1] == (int64_t)in->ranks * MAX_TOKENS);
  for (expert = 0; expert < local; expert++) {
    int32_t row = 0;
    for (source = 0; source < in->ranks; source++) {
      for (t = 0; t < tokens_of(source, in->ranks); t++) {
        for (k = 0; k < TOP_K; k++) {
          if (expert_of(source, t, k) != in->rank * local + expert) {
            continue;
          }
          CHECK(((int32_t *)got->src_info.data)[expert * got->x.shape[1] + row] == t);
          for (h = 0; h < HIDDEN; h++) {
            float difference = received(got, expert, row, h) - (float)value_of(source, t, h);
            CHECK(difference <= tolerance && difference >= -tolerance);
            in->expert_rows[(expert * got->x.shape[1] + row) * HIDDEN + h] =
                bf16_of(unit * (float)value_of(source, t, h));
          }
          row++;
        }
      }
    }
    CHECK(((int32_t *)got->counts.data)[expert] == row);
  }
}

static inline void low_latency(ep4j_buffer buffer, inputs *in, variant how) {
  ep4j_low_latency_dispatch_args args;
  ep4j_low_latency_dispatch_result got = {sizeof got};
  ep4j_low_latency_combine_args back;
  ep4j_low_latency_combine_result sums = {sizeof sums};
  int local = EXPERTS / in->ranks;
  int64_t group_rows = (int64_t)in->ranks * MAX_TOKENS;
  float unit = how.log_fmt ? 1.0f / 16.0f : 1.0f; /* LogFMT: only values below 1 are encoded */
  float global_scale = GLOBAL_SCALE;
  int rounded = 0;
  int t, k, h;
  memset(&args, 0, sizeof args);
  args.size = sizeof args;
  args.x = matrix(in->rows, EP4J_BF16, in->tokens, HIDDEN);
  args.topk_idx = matrix(in->ids, EP4J_INT64, in->tokens, TOP_K);
  args.topk_weights = matrix(in->weights, EP4J_FP32, in->tokens, TOP_K);
  args.format = how.format;
  args.return_hook = how.hook;
  args.scale_columns = how.columns;
  args.scale_kind = how.scale_kind;
  if (how.format == EP4J_ROWS_NVFP4) {
    args.global_scale = ep4j_tensor_at(&global_scale, EP4J_FP32, EP4J_HOST, 1, 0, 0);
  }
  OK(ep4j->low_latency_dispatch(buffer, &args, &got));
  if (how.hook) {
    ep4j_low_latency_dispatch_result before = got;
    OK(ep4j->low_latency_receive(got.result));
    FAILS(2322, ep4j->low_latency_receive(got.result));
    OK(ep4j->low_latency_dispatch_result(got.result, &got));
    /* The tensors had their memory before they were received. */
    CHECK(memcmp(&before, &got, sizeof got) == 0);
  }
  fetch_groups(&got);
  check_groups(in, &got, unit);
  CHECK((how.format == EP4J_ROWS_NVFP4) == (got.x.dtype == EP4J_NVFP4));
  if (how.scale_kind == EP4J_SCALES_UE8M0) {
    CHECK(got.scales.dtype == (how.columns ? EP4J_INT32 : EP4J_UE8M0));
  }
  memset(&back, 0, sizeof back);
  back.size = sizeof back;
  back.dispatched = got.result;
  back.y = ep4j_tensor_at(in->expert_rows, EP4J_BF16, EP4J_HOST, local, group_rows, HIDDEN);
  if (how.zero_copy) {
    ep4j_tensor input;
    OK(ep4j->low_latency_combine_input(got.result, &input));
    OK(ep4j->tensor_write(&input, back.y.data));
    back.y = input;
    back.zero_copy = 1;
  }
  back.topk_idx = args.topk_idx;
  back.topk_weights = args.topk_weights;
  back.return_hook = how.hook;
  back.log_fmt = how.log_fmt;
  back.by_experts = how.zero_copy;
  back.logical_idx = how.zero_copy ? args.topk_idx : back.logical_idx;
  OK(ep4j->low_latency_combine(buffer, &back, &sums));
  if (how.hook) {
    OK(ep4j->low_latency_receive(sums.result));
    OK(ep4j->low_latency_combine_result(sums.result, &sums));
  }
  fetch(&sums.x);
  CHECK(is_tensor(sums.x, EP4J_BF16, in->tokens, HIDDEN));
  for (t = 0; t < in->tokens; t++) {
    float factor = 0;
    for (k = 0; k < TOP_K; k++) {
      factor += expert_of(in->rank, t, k) < 0 ? 0 : weight_of(t, k);
    }
    for (h = 0; h < HIDDEN; h++) {
      float exact = factor * unit * (float)value_of(in->rank, t, h);
      float difference = float_of(((uint16_t *)sums.x.data)[t * HIDDEN + h]) - exact;
      /* Half a step of LogFMT is 2.2 % where values span 32 octaves: there are zeros. */
      float tolerance = how.log_fmt ? (exact < 0 ? -exact : exact) / 40.0f : 0.0f;
      CHECK(difference <= tolerance && difference >= -tolerance);
      rounded += difference != 0;
    }
  }
  CHECK(in->tokens == 0 || (rounded > 0) == how.log_fmt);
}

/* Two dispatches wait for their hooks; the one after outdates the first. */
static inline void two_in_flight(ep4j_buffer buffer, inputs *in) {
  ep4j_low_latency_dispatch_args args;
  ep4j_low_latency_dispatch_result got[3] = {{sizeof *got}, {sizeof *got}, {sizeof *got}};
  int i;
  memset(&args, 0, sizeof args);
  args.size = sizeof args;
  args.x = matrix(in->rows, EP4J_BF16, in->tokens, HIDDEN);
  args.topk_idx = matrix(in->ids, EP4J_INT64, in->tokens, TOP_K);
  args.format = EP4J_ROWS_BF16;
  args.return_hook = 1;
  OK(ep4j->low_latency_dispatch(buffer, &args, &got[0]));
  OK(ep4j->low_latency_dispatch(buffer, &args, &got[1]));
  FAILS(2324, ep4j->low_latency_dispatch(buffer, &args, &got[2]));
  for (i = 0; i < 2; i++) {
    OK(ep4j->low_latency_receive(got[i].result));
    OK(ep4j->low_latency_dispatch_result(got[i].result, &got[i]));
    fetch_groups(&got[i]);
    check_groups(in, &got[i], 1);
  }
  OK(ep4j->low_latency_dispatch(buffer, &args, &got[2]));
  OK(ep4j->low_latency_receive(got[2].result));
  OK(ep4j->low_latency_dispatch_result(got[1].result, &got[1]));
  FAILS(1040, ep4j->low_latency_dispatch_result(got[0].result, &got[0]));
}

/* A row per token, with its choices; the caller applies the weights. */
static inline void by_rank(ep4j_buffer buffer, const inputs *in) {
  ep4j_low_latency_dispatch_args args;
  ep4j_low_latency_dispatch_result got = {sizeof got};
  ep4j_low_latency_combine_args back;
  ep4j_low_latency_combine_result sums = {sizeof sums};
  int source, t;
  memset(&args, 0, sizeof args);
  args.size = sizeof args;
  args.x = matrix(in->rows, EP4J_BF16, in->tokens, HIDDEN);
  args.topk_idx = matrix(in->ids, EP4J_INT64, in->tokens, TOP_K);
  args.topk_weights = matrix(in->weights, EP4J_FP32, in->tokens, TOP_K);
  args.layout = EP4J_RANK_MAJOR;
  args.format = EP4J_ROWS_BF16;
  OK(ep4j->low_latency_dispatch(buffer, &args, &got));
  memset(&back, 0, sizeof back);
  back.y = got.x;
  fetch_groups(&got);
  for (source = 0; source < in->ranks; source++) {
    int32_t row = 0;
    for (t = 0; t < tokens_of(source, in->ranks); t++) {
      if (goes_to(source, t, in->rank, in->ranks)) {
        CHECK(has_values((uint16_t *)got.x.data + ((int64_t)source * MAX_TOKENS + row) * HIDDEN, source, t, 1));
        row++;
      }
    }
    CHECK(((int32_t *)got.counts.data)[source] == row);
  }
  CHECK(got.topk_idx.shape[2] == TOP_K && got.topk_weights.shape[2] == TOP_K);
  back.size = sizeof back;
  back.dispatched = got.result;
  back.topk_idx = args.topk_idx;
  back.topk_weights = args.topk_weights;
  OK(ep4j->low_latency_combine(buffer, &back, &sums));
  check_flat_sums(in, sums.x);
}

#endif
