/*
 * Calls every function of ep4j.h over the host engine, and compares results with a plain model.
 *
 *   conformance all        one rank of a group that the environment describes: everything
 *   conformance kill       the same group; rank 1 kills itself, the others continue without it
 *   conformance survive    the same, with a new group and a new buffer
 *   conformance readmit    the same, with a process in its place that runs `rejoin RANKS PORT SECRET`
 *   conformance late       the same group; rank 1 is late and gets masked
 *   conformance exit       ends with open buffers, handles and operations
 *   conformance threads    two ranks that are threads of this process
 *   conformance interrupt  the same; a third thread interrupts rank 0
 *   conformance fork       calls from a forked child
 *   conformance present    in a JVM that this program has made, with the class path of the next argument
 *   conformance start      prints the error of ep4j_start, or "started"; tries twice
 */
#define _POSIX_C_SOURCE 200809L /* for this program: the header needs no such thing */
#define EP4J_IMPLEMENTATION
#include "ep4j.h"

#include <sys/mman.h>
#include <sys/wait.h>

#include "interrupts.h"
#include "recovery.h"

const ep4j_api *ep4j;

/* Whether the calling thread is attached to the JVM. */
static int is_attached(void) {
  ep4j_jni_table *vm = ep4j_present_jvm();
  void *env = NULL;
  CHECK(vm != NULL);
  return ((int32_t(*)(ep4j_jni_table *, void **, int32_t))(*vm)[EP4J_VM_GET_ENV])(
             vm, &env, EP4J_JNI_VERSION) == 0;
}

static void start(void) {
  ep4j_error error;
  CHECK(ep4j_start(NULL, &error) == 1041 && error.kind == EP4J_ERROR_ARGUMENT);
  if (ep4j_start(&ep4j, &error) != 0) {
    fprintf(stderr, "%s\n", error.text);
    exit(1);
  }
  CHECK(ep4j->version == EP4J_ABI_VERSION && ep4j->size >= sizeof(ep4j_api));
  CHECK(!is_attached());
}

/* A size that was never set may be any number: nothing is read behind the structure. */
static void unset_size(ep4j_buffer buffer, const inputs *in) {
  ep4j_dispatch_args args = dispatch_args(in);
  ep4j_dispatch_result got = {sizeof got};
  size_t page = (size_t)sysconf(_SC_PAGESIZE);
  void *pages;
  char *last;
  CHECK(posix_memalign(&pages, page, 2 * page) == 0);
  CHECK(mprotect((char *)pages + page, page, PROT_NONE) == 0);
  last = (char *)pages + page - sizeof args;
  args.size = ~0ull >> 1;
  memcpy(last, &args, sizeof args);
  FAILS(1041, ep4j->dispatch(buffer, (ep4j_dispatch_args *)last, &got));
  CHECK(mprotect((char *)pages + page, page, PROT_READ | PROT_WRITE) == 0);
  free(pages);
}

/* Errors that leave the buffer as it is. */
static void errors(ep4j_buffer buffer, const inputs *in) {
  ep4j_dispatch_args args = dispatch_args(in);
  ep4j_dispatch_result got = {sizeof got};
  ep4j_error error = {sizeof error, 0, 0, 0, 0, {0}};
  ep4j_buffer_config config = config_of();
  ep4j_buffer_sizes sizes = {sizeof sizes, 0, 0, 0, 0};
  char after[2 * sizeof args] = {0};
  uint64_t foreign[] = {0, 1, 12345, ~0ull, (uint64_t)(uintptr_t)&args};
  size_t i;
  for (i = 0; i < sizeof foreign / sizeof *foreign; i++) {
    FAILS(1040, ep4j->dispatch(foreign[i], &args, &got));
    FAILS(1040, ep4j->buffer_barrier(foreign[i]));
    FAILS(1040, ep4j->group_barrier(foreign[i], 1));
    if (foreign[i] != 0) {
      FAILS(1040, ep4j->close(foreign[i]));
    }
  }
  OK(ep4j->close(0));
  FAILS(1040, ep4j->group_barrier(buffer, 1));
  FAILS(1041, ep4j->dispatch(buffer, NULL, &got));
  FAILS(1041, ep4j->dispatch(buffer, &args, NULL));
  args.size = 8;
  FAILS(1041, ep4j->dispatch(buffer, &args, &got));
  /* A newer header: what these jars do not know must be 0. */
  args.size = sizeof args + 8;
  memcpy(after, &args, sizeof args);
  after[sizeof args] = 1;
  FAILS(1041, ep4j->dispatch(buffer, (ep4j_dispatch_args *)after, &got));
  args = dispatch_args(in);
  args.x.dtype = EP4J_FP32;
  FAILS(1405, ep4j->dispatch(buffer, &args, &got));
  ep4j->last_error(&error);
  CHECK(error.kind == EP4J_ERROR_ARGUMENT && error.rank == -1);
  CHECK(strncmp(error.text, "EP4J-1405: ", 11) == 0);
  args = dispatch_args(in);
  args.x.dtype = 77;
  FAILS(1042, ep4j->dispatch(buffer, &args, &got));
  args = dispatch_args(in);
  args.x.dimensions = 1;
  FAILS(1020, ep4j->dispatch(buffer, &args, &got));
  args = dispatch_args(in);
  args.x = matrix(in->rows, EP4J_BF16, 2, HIDDEN / 2);
  args.x.strides[0] = HIDDEN;
  args.x.strides[1] = 1;
  FAILS(1043, ep4j->dispatch(buffer, &args, &got));
  args = dispatch_args(in);
  args.x.dtype = EP4J_FP8_E4M3;
  args.scales = matrix(in->scales, EP4J_FP32, in->tokens + 2, 4); /* by columns, of other rows */
  args.scales.strides[0] = 1;
  args.scales.strides[1] = in->tokens + 3;
  FAILS(1021, ep4j->dispatch(buffer, &args, &got));
  args = dispatch_args(in);
  args.x.data = NULL;
  args.x.shape[0] = 1;
  FAILS(1041, ep4j->dispatch(buffer, &args, &got));
  args.x.device = 0;
  FAILS(1041, ep4j->dispatch(buffer, &args, &got));
  args = dispatch_args(in);
  args.topk_idx.dimensions = 0;
  args.topk_weights.dimensions = 0;
  FAILS(1030, ep4j->dispatch(buffer, &args, &got));
  args = dispatch_args(in);
  args.layout = EP4J_RANK_MAJOR;
  CHECK(ep4j->dispatch(buffer, &args, &got) != 0);
  FAILS(1040, ep4j->dispatch_result(buffer, &got));
  config.hidden = 7;
  FAILS(1001, ep4j->buffer_sizes(&config, in->ranks, &sizes));
  config = config_of();
  config.lost_ranks = -1;
  FAILS(1006, ep4j->buffer_sizes(&config, in->ranks, &sizes));
  config.lost_ranks = in->ranks > 1 ? 1 : 0;
  OK(ep4j->buffer_sizes(&config, in->ranks, &sizes));
  config = config_of();
  config.engine = "abacus";
  FAILS(1007, ep4j->buffer_sizes(&config, in->ranks, &sizes));
  ep4j->last_error(&error);
  CHECK(strstr(error.text, "abacus") != NULL);
}

/* What the buffer tells about waits, after more than 20 operations. */
static void observe(ep4j_group group, ep4j_buffer buffer, const inputs *in) {
  ep4j_observation seen = {sizeof seen};
  ep4j_verdict verdict = {sizeof verdict};
  ep4j_buffer_info info = {sizeof info};
  int64_t waited[MAX_RANKS], tokens[EXPERTS];
  int64_t total = 0, alone;
  int i;
  OK(ep4j->buffer_info(buffer, &info));
  OK(ep4j->buffer_observe(buffer, &seen, waited, in->ranks, tokens, info.local_experts));
  CHECK(seen.operations >= 20 && seen.operations <= 200 && seen.operations % 20 == 0);
  CHECK(seen.nanoseconds > 0 && seen.rows > 0 && seen.timeouts == 0 && seen.timeout_peer == -1);
  for (i = 0; i < in->ranks; i++) {
    CHECK(waited[i] >= 0 && waited[i] <= seen.nanoseconds);
  }
  for (i = 0; i < info.local_experts; i++) {
    total += tokens[i];
  }
  CHECK(total > 0);
  alone = seen.operations;
  OK(ep4j->buffer_observe(buffer, &seen, NULL, -1, NULL, -1));
  CHECK(seen.operations >= alone);
  FAILS(1042, ep4j->buffer_observe(buffer, &seen, waited, in->ranks + 1, NULL, 0));
  FAILS(1042, ep4j->buffer_observe(buffer, &seen, NULL, 0, tokens, info.local_experts + 1));
  OK(ep4j->buffer_verdict(buffer, group, 60000, &verdict));
  CHECK(verdict.cause >= EP4J_VERDICT_TOO_EARLY && verdict.cause <= EP4J_VERDICT_SKEW);
  CHECK(verdict.rank >= -1 && verdict.rank < in->ranks && strlen(verdict.text) > 10);
  CHECK((verdict.rank == -1) == (verdict.cause <= EP4J_VERDICT_NONE));
  seen.size = 8;
  FAILS(1041, ep4j->buffer_observe(buffer, &seen, NULL, 0, NULL, 0));
}

/* What the buffer tells about itself. */
static void describe(ep4j_group group, ep4j_buffer buffer, const inputs *in) {
  ep4j_group_info info = {sizeof info, 0, 0, 0, 0, {0}};
  ep4j_rank_state state = {sizeof state, 0, 0, 0, 0, {0}, {0}};
  ep4j_buffer_info opened = {sizeof opened, 0, 0, 0, 0, 0, 0, 0, {0}, {0}, {0}};
  ep4j_buffer_sizes sizes = {sizeof sizes, 0, 0, 0, 0};
  ep4j_statistics counters = {sizeof counters, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0};
  ep4j_wire_path path = {sizeof path, 0, 0, 0, {0}};
  ep4j_buffer_config config = config_of();
  int32_t placement[EXPERTS];
  int32_t masks[MAX_RANKS] = {7, 7, 7, 7};
  int32_t copy[MAX_RANKS];
  int32_t masked = 7;
  int32_t gathered[MAX_RANKS];
  int32_t mine = in->rank * 11;
  ep4j_tensor mask = ep4j_tensor_at(masks, EP4J_INT32, EP4J_HOST, in->ranks, 0, 0);
  int i;
  OK(ep4j->group_info(group, &info));
  CHECK(info.rank == in->rank && info.ranks == in->ranks && strlen(info.job_id) > 0);
  OK(ep4j->group_rank_state(group, in->rank, &state));
  CHECK(state.alive && state.incarnation == 0 && state.report[0] == 0 && state.address[0] != 0);
  FAILS(1042, ep4j->group_rank_state(group, in->ranks, &state));
  OK(ep4j->group_all_gather(group, &mine, sizeof mine, gathered, 20000));
  for (i = 0; i < in->ranks; i++) {
    CHECK(gathered[i] == i * 11);
  }
  OK(ep4j->buffer_info(buffer, &opened));
  CHECK(opened.rank == in->rank && opened.ranks == in->ranks && opened.experts == EXPERTS);
  CHECK(opened.local_experts == EXPERTS / in->ranks && strcmp(opened.engine, config.engine) == 0);
  CHECK(opened.max_receive_rows >= MAX_TOKENS);
  OK(ep4j->buffer_placement(buffer, placement, EXPERTS));
  CHECK(placement[EXPERTS - 1] == in->ranks - 1 && placement[0] == 0);
  OK(ep4j->buffer_sizes(&config, in->ranks, &sizes));
  CHECK(sizes.symmetric_bytes > sizes.low_latency_bytes && sizes.low_latency_bytes > 0);
  CHECK(sizes.private_bytes > 0 && sizes.first_use_bytes >= 0);
  OK(ep4j->buffer_statistics(buffer, &counters));
  CHECK(counters.dispatches > 0 && counters.combines > 0 && counters.low_latency_dispatches > 0);
  CHECK(counters.combines_in_place <= counters.combines);
  CHECK(counters.wire_paths == 0);
  FAILS(1042, ep4j->buffer_wire_path(buffer, 0, &path));
  OK(ep4j->buffer_set_parallelism(buffer, 1));
  OK(ep4j->buffer_info(buffer, &opened));
  CHECK(opened.parallelism == 1);
  OK(ep4j->mask_get(buffer, in->rank, &masked));
  CHECK(masked == 0);
  OK(ep4j->mask_read(buffer, &mask));
  CHECK(masks[0] == 0 && masks[in->ranks - 1] == 0);
  OK(ep4j->tensor_read(&mask, copy));
  CHECK(memcmp(copy, masks, sizeof(int32_t) * (size_t)in->ranks) == 0);
  copy[0] = 9;
  OK(ep4j->tensor_write(&mask, copy));
  CHECK(masks[0] == 9);
  if (in->ranks > 1) {
    int other = (in->rank + 1) % in->ranks;
    OK(ep4j->mask_set(buffer, other, 1));
    OK(ep4j->mask_get(buffer, other, &masked));
    CHECK(masked == 1);
    OK(ep4j->group_barrier(group, 20000));
    OK(ep4j->mask_clear(buffer));
    OK(ep4j->mask_get(buffer, other, &masked));
    CHECK(masked == 0);
    OK(ep4j->group_barrier(group, 20000));
  }
}

static void everything(ep4j_group group, int rank, int ranks) {
  static const variant VARIANTS[] = {{EP4J_ROWS_BF16, 0, 0, 0, 0, 0},
                                     {EP4J_ROWS_BF16, 1, 1, 0, 0, 0},
                                     {EP4J_ROWS_BF16, 0, 0, 0, 0, 1},
                                     {EP4J_ROWS_FP8, 0, 0, 0, 0, 0},
                                     {EP4J_ROWS_FP8, 0, 0, 0, EP4J_SCALES_FLOAT32_POW2, 0},
                                     {EP4J_ROWS_FP8, 0, 0, 0, EP4J_SCALES_UE8M0, 0},
                                     {EP4J_ROWS_FP8, 0, 0, 1, EP4J_SCALES_UE8M0, 0},
                                     {EP4J_ROWS_NVFP4, 0, 0, 0, 0, 0},
                                     {0, 1, 0, 1, 0, 0}};
  ep4j_buffer_config config = config_of();
  ep4j_dispatch_args args;
  ep4j_dispatch_result got = {sizeof got};
  ep4j_buffer buffer = 0;
  inputs *in = (inputs *)malloc(sizeof *in);
  size_t i;
  CHECK(in != NULL);
  fill_inputs(in, rank, ranks);
  OK(ep4j->buffer_open(group, &config, &buffer));
  OK(ep4j->buffer_warm_up(buffer));
  OK(ep4j->buffer_barrier(buffer));
  for (i = 0; i < 3; i++) {
    flat(buffer, in);
  }
  asynchronous(buffer, in);
  scaled(buffer, in, 0);
  scaled(buffer, in, 1);
  grouped(buffer, in);
  by_experts(buffer, in);
  fixed_rows(buffer, in);
  layout(buffer, in);
  dense(in);
  for (i = 0; i < sizeof VARIANTS / sizeof *VARIANTS; i++) {
    low_latency(buffer, in, VARIANTS[i]);
    low_latency(buffer, in, VARIANTS[i]);
  }
  two_in_flight(buffer, in);
  by_rank(buffer, in);
  errors(buffer, in);
  unset_size(buffer, in);
  describe(group, buffer, in);
  observe(group, buffer, in);
  args = dispatch_args(in);
  OK(ep4j->dispatch(buffer, &args, &got));
  OK(ep4j->close(buffer));
  OK(ep4j->close(buffer));
  FAILS(1040, ep4j->dispatch(buffer, &args, &got));
  FAILS(1040, ep4j->dispatch_result(got.result, &got));
  OK(ep4j->close(got.handle));
  free(in);
}

static ep4j_group join(int *rank, int *ranks) {
  ep4j_group group = 0;
  ep4j_group_info info = {sizeof info, 0, 0, 0, 0, {0}};
  FAILS(1041, ep4j->group_from_environment(NULL));
  OK(ep4j->group_from_environment(&group));
  OK(ep4j->group_info(group, &info));
  *rank = info.rank;
  *ranks = info.ranks;
  return group;
}

/* Rank 1 dies; the others learn its number at once, reset, and use the buffer without it. */
static void lose_a_rank(ep4j_group group, int rank, int ranks) {
  ep4j_buffer_config config = config_of();
  ep4j_dispatch_args args;
  ep4j_dispatch_result got = {sizeof got};
  ep4j_error error = {sizeof error, 0, 0, 0, 0, {0}};
  ep4j_rank_state state = {sizeof state, 0, 0, 0, 0, {0}, {0}};
  ep4j_buffer buffer = 0;
  inputs *in = (inputs *)malloc(sizeof *in);
  int64_t begin;
  int32_t status;
  CHECK(in != NULL);
  fill_inputs(in, rank, ranks);
  args = dispatch_args(in);
  OK(ep4j->buffer_open(group, &config, &buffer));
  OK(ep4j->dispatch(buffer, &args, &got));
  OK(ep4j->buffer_barrier(buffer));
  if (rank == 1) {
    raise(SIGKILL);
  }
  begin = now_ms();
  do {
    status = ep4j->dispatch(buffer, &args, &got);
  } while (status == 0);
  CHECK(now_ms() - begin < 5000);
  ep4j->last_error(&error);
  CHECK(status == 4000 && error.code == 4000);
  CHECK(error.kind == EP4J_ERROR_PEER_TIMEOUT && error.rank == 1);
  CHECK(strstr(error.text, "rank 1") != NULL);
  FAILS(2304, ep4j->dispatch(buffer, &args, &got));
  OK(ep4j->buffer_reset(buffer));
  OK(ep4j->dispatch(buffer, &args, &got));
  OK(ep4j->group_rank_state(group, 1, &state));
  CHECK(!state.alive && state.report[0] != 0);
  OK(ep4j->close(buffer));
  OK(ep4j->close(group));
  free(in);
}

/* Ends while much is open. */
static void leave_open(ep4j_group group, int rank, int ranks) {
  ep4j_buffer_config config = config_of();
  ep4j_low_latency_dispatch_args args;
  ep4j_low_latency_dispatch_result got = {sizeof got};
  ep4j_buffer buffer = 0;
  ep4j_buffer second = 0;
  inputs *in = (inputs *)malloc(sizeof *in);
  CHECK(in != NULL);
  fill_inputs(in, rank, ranks);
  OK(ep4j->buffer_open(group, &config, &buffer));
  OK(ep4j->buffer_open(group, &config, &second));
  memset(&args, 0, sizeof args);
  args.size = sizeof args;
  args.x = matrix(in->rows, EP4J_BF16, in->tokens, HIDDEN);
  args.topk_idx = matrix(in->ids, EP4J_INT64, in->tokens, TOP_K);
  args.return_hook = 1;
  OK(ep4j->low_latency_dispatch(buffer, &args, &got));
  printf("leaves %lld\n", (long long)now_ms());
  fflush(stdout);
  exit(0);
}

static void *thread_rank(void *group) {
  ep4j_group_info info = {sizeof info, 0, 0, 0, 0, {0}};
  OK(ep4j->group_info(*(ep4j_group *)group, &info));
  CHECK(info.in_process == 1);
  everything(*(ep4j_group *)group, info.rank, info.ranks);
  OK(ep4j->close(*(ep4j_group *)group));
  return NULL;
}

static void threads(void) {
  ep4j_group groups[2];
  pthread_t ranks[2];
  int i;
  OK(ep4j->group_in_process(2, groups));
  for (i = 0; i < 2; i++) {
    CHECK(pthread_create(&ranks[i], NULL, thread_rank, &groups[i]) == 0);
  }
  for (i = 0; i < 2; i++) {
    CHECK(pthread_join(ranks[i], NULL) == 0);
  }
}

/* All functions fail in a child. */
static void fork_from(ep4j_group group) {
  int status = -1;
  pid_t child = fork();
  if (child == 0) {
    ep4j_error error = {sizeof error, 0, 0, 0, 0, {0}};
    const ep4j_api *again = NULL;
    CHECK(ep4j_start(&again, &error) == 2010 && strstr(error.text, "forked") != NULL);
    CHECK(ep4j->group_barrier(group, 1000) == 2010);
    CHECK(ep4j->group_readmit(group, 1000, NULL, 0, NULL) == 2010);
    CHECK(ep4j->last_error(&error) == 2010);
    CHECK(ep4j->routing_to_dense(NULL, NULL, NULL) == 2010);
    CHECK(ep4j->interrupt(1) == 2010);
    _exit(0);
  }
  CHECK(waitpid(child, &status, 0) == child && status == 0);
}

static void forked(void) {
  ep4j_group group = 0;
  fork_from(group); /* this thread has called nothing yet */
  OK(ep4j->group_from_environment(&group));
  fork_from(group);
  OK(ep4j->group_barrier(group, 1000));
  OK(ep4j->close(group));
}

/* Makes a JVM as another library of the process might. */
static void make_jvm(const char *class_path) {
  ep4j_jvm_option option;
  ep4j_jvm_arguments arguments = {EP4J_JNI_VERSION, 1, NULL, 0};
  ep4j_jni_table *vm = NULL;
  void *env = NULL;
  char path[4096];
  char text[4096];
  ep4j_create_jvm create;
  snprintf(path, sizeof path, "%s/lib/server/libjvm.so", getenv("EP4J_JAVA_HOME"));
  snprintf(text, sizeof text, "-Djava.class.path=%s", class_path);
  option.text = text;
  option.extra = NULL;
  arguments.options = &option;
  create = (ep4j_create_jvm)ep4j_symbol(dlopen(path, RTLD_NOW), "JNI_CreateJavaVM");
  CHECK(create != NULL && create(&vm, &env, &arguments) == 0);
}

static void *start_in_thread(void *status) {
  ep4j_error error;
  *(int32_t *)status = ep4j_start(&ep4j, &error);
  puts(*(int32_t *)status == 0 ? "started" : error.text);
  CHECK(!is_attached());
  return NULL;
}

/* An explicit rendezvous, with what is wrong about it. */
static void joins(void) {
  ep4j_group_config config;
  ep4j_group group = 0;
  memset(&config, 0, sizeof config);
  config.size = sizeof config;
  config.rank = 2;
  config.ranks = 2;
  FAILS(1100, ep4j->group_join(&config, &group));
  config.rank = 0;
  FAILS(1102, ep4j->group_join(&config, &group));
  config.ranks = 1;
  config.hosting = 3;
  FAILS(1042, ep4j->group_join(&config, &group));
}

int main(int count, char **arguments) {
  const char *mode = count > 1 ? arguments[1] : "";
  int rank = 0;
  int ranks = 1;
  ep4j_group group;
  if (strcmp(mode, "present") == 0) {
    pthread_t thread;
    int32_t status = 1;
    make_jvm(arguments[2]);
    CHECK(pthread_create(&thread, NULL, start_in_thread, &status) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
    return 0;
  }
  if (strcmp(mode, "start") == 0) {
    ep4j_error error;
    int32_t status = ep4j_start(&ep4j, &error);
    puts(status == 0 ? "started" : error.text);
    CHECK(status == 0 || error.code == status);
    CHECK(ep4j_start(&ep4j, &error) == status);
    return 0;
  }
  start();
  if (strcmp(mode, "threads") == 0) {
    threads();
  } else if (strcmp(mode, "interrupt") == 0) {
    interrupts();
  } else if (strcmp(mode, "fork") == 0) {
    forked();
  } else if (strcmp(mode, "rejoin") == 0) {
    ep4j_buffer_config config = config_of();
    rejoin(&config, atoi(arguments[2]), atoi(arguments[3]), arguments[4]);
  } else {
    ep4j_buffer_config config = config_of();
    group = join(&rank, &ranks);
    if (strcmp(mode, "survive") == 0) {
      continue_as_survivors(group, &config, rank, ranks);
    } else if (strcmp(mode, "readmit") == 0) {
      readmit(group, &config, rank, ranks);
    } else if (strcmp(mode, "late") == 0) {
      mask_a_late_rank(group, &config, rank, ranks);
    } else if (strcmp(mode, "kill") == 0) {
      lose_a_rank(group, rank, ranks);
    } else if (strcmp(mode, "exit") == 0) {
      leave_open(group, rank, ranks);
    } else {
      joins();
      everything(group, rank, ranks);
      OK(ep4j->close(group));
    }
  }
  puts("passed");
  return 0;
}
