package org.ep4j.cuda.engine;

/** {@code FarPosts} in {@code low_latency_posts.cuh}: 8 bytes each. */
enum FarPostsField {
  WORLD,
  SHADOW,
  SHADOW_SOURCE,
  HALF_BYTES,
  ROWS_OFFSET,
  TARGET,
  COUNTERS,
  BASE,
  FIRST_COUNTER
}
