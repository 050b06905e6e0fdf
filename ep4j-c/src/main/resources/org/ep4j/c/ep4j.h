/*
 * ep4j.h: expert parallelism (Mixture-of-Experts dispatch and combine) for C and C++ programs.
 *
 * The functions are members of a table, ep4j_api. ep4j_start() starts the JVM of the process and
 * returns the table:
 *
 *     const ep4j_api *ep4j;
 *     ep4j_error error;
 *     if (ep4j_start(&ep4j, &error) != 0) { puts(error.text); exit(1); }
 *     ep4j_group group;
 *     int32_t status = ep4j->group_from_environment(&group);
 *
 * Build: one C file defines EP4J_IMPLEMENTATION before it includes this header, and the program links
 * with -ldl -lpthread (both are part of the C library since glibc 2.34). That file holds the code that
 * starts the JVM: a process has one JVM, so the state of its start exists once, not once a file.
 *
 * Status: every function returns 0, or the number of a stable code: 1432 is EP4J-1432 of docs/errors.md.
 * last_error() then gives code, text and rank of the last failed call of the calling thread.
 *
 * Objects are numbers. 0 is no object. A number that names no open object of the expected kind is an
 * error (EP4J-1040), never a crash. close() closes groups, buffers, handles, events and counters. Closing
 * a buffer also closes its handles and events.
 *
 * Structures begin with their size: set it to sizeof the structure, and all else that you do not use to
 * 0 (`ep4j_dispatch_args args = {sizeof args};` does both). 0 means "none" or the default, unless the
 * field says otherwise. Later versions append fields and functions, and change none. ep4j_tensor has no
 * size: it will not change.
 *
 * Memory: inputs belong to the caller, and must live until the call has returned; with `async` or a
 * stream, until the operation has ended. Results are views of the buffer's memory: each result structure
 * says until when they are valid. Nothing needs to be freed but objects.
 *
 * Threads: any thread may call any function, and may end afterwards; only ranks of group_in_process need
 * their threads. One thread at a time uses a buffer and its results (EP4J-2302 otherwise), and one thread
 * of a rank calls the collective functions of its group. Collective functions are called by all ranks in
 * the same order.
 *
 * Interrupts: a wait for peers ends at its deadline, or when another thread calls interrupt() with the
 * number of the waiting one: caller().
 *
 * Signals: the JVM runs with -Xrs, so it leaves SIGINT, SIGTERM, SIGHUP and SIGQUIT to the program. It
 * uses SIGSEGV itself: a program that handles SIGSEGV loads libjsig.so of the JVM first.
 *
 * Start: a JVM that cannot start, for example without memory for its heap, may print why and exit with 1.
 *
 * Fork: a child of fork() that does not execute another program cannot use the JVM of its parent. Every
 * function returns EP4J-2010 there.
 *
 * Exit: a process may end with open objects. Its peers then notice that the rank is lost.
 */
#ifndef EP4J_H
#define EP4J_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Version of the table, ep4j_api.version. */
#define EP4J_ABI_VERSION 1

/* Objects; 0 is none. */
typedef uint64_t ep4j_group;
typedef uint64_t ep4j_buffer;
typedef uint64_t ep4j_handle; /* routes of a dispatch, for combine and cached dispatches */
typedef uint64_t ep4j_result; /* an operation; not closed, valid as long as its result structure */
typedef uint64_t ep4j_event;  /* completion of an asynchronous operation */
typedef uint64_t ep4j_routing_counter; /* counts routings without a buffer */

/* Element types. All are little-endian. Shapes count elements, never bytes. */
enum {
  EP4J_BF16 = 1,
  EP4J_FP16 = 2,
  EP4J_FP32 = 3,
  EP4J_FP8_E4M3 = 4,
  EP4J_NVFP4 = 5, /* two elements a byte, the even one in the low half */
  EP4J_INT32 = 6,
  EP4J_INT64 = 7,
  EP4J_UE8M0 = 8, /* a power of two: the biased exponent of a binary32 */
  EP4J_UINT8 = 9
};

/* Order of received rows; 0 is FLAT, in low-latency operations EXPERT_MAJOR. */
enum {
  EP4J_FLAT = 1,         /* high throughput: a row per token, by source rank and token */
  EP4J_EXPERT_MAJOR = 2, /* a row per token and local expert, in a group per expert */
  EP4J_RANK_MAJOR = 3    /* low latency: a row per token, in a group per source rank */
};

/* Rows of a low-latency dispatch; 0 is FP8. */
enum {
  EP4J_ROWS_BF16 = 1,
  EP4J_ROWS_FP8 = 2,  /* E4M3, a scale per 128 values */
  EP4J_ROWS_NVFP4 = 3 /* an E4M3 scale per 16 values */
};

/* FP8 scales of a low-latency dispatch; 0 is FLOAT32. */
enum {
  EP4J_SCALES_FLOAT32 = 1,      /* amax / 448 */
  EP4J_SCALES_FLOAT32_POW2 = 2, /* rounded up to a power of two */
  /* That power of two as a byte, UE8M0 [G, P, H/128]; with scale_columns four in a word, the first in
     the lowest byte, INT32 [G, P, H/512]. H is a multiple of 512. */
  EP4J_SCALES_UE8M0 = 3
};

/* What makes ranks wait, ep4j_verdict.cause. */
enum {
  EP4J_VERDICT_TOO_EARLY = 1, /* fewer than 60 operations since the buffer was opened or reset */
  EP4J_VERDICT_NONE = 2,      /* no rank and no link stands out */
  EP4J_VERDICT_SLOW_RANK = 3, /* a rank comes late to operations */
  EP4J_VERDICT_SLOW_LINK = 4, /* one rank alone waits for another one */
  EP4J_VERDICT_SKEW = 5       /* a rank comes late that receives far more rows than the others */
};

/* Kinds of errors, ep4j_error.kind. */
enum {
  EP4J_ERROR_ARGUMENT = 1,      /* an argument is not valid; nothing was sent */
  EP4J_ERROR_USE = 2,           /* the state of the object does not allow the call; nothing was sent */
  EP4J_ERROR_UNAVAILABLE = 3,   /* the engine cannot run on this machine */
  EP4J_ERROR_MISMATCH = 4,      /* ranks disagree on the configuration or on the next operation */
  EP4J_ERROR_PEER_TIMEOUT = 5,  /* a peer is dead or silent: call reset on all live ranks */
  EP4J_ERROR_OVERFLOW = 6,      /* more rows than the receive region holds */
  EP4J_ERROR_PEER_LOST = 7,     /* a rank is no longer in the group */
  EP4J_ERROR_GROUP_TIMEOUT = 8, /* ranks did not do their part in a collective of the group */
  EP4J_ERROR_JOIN_REFUSED = 9,  /* the rendezvous refuses this rank; a retry does not help */
  EP4J_ERROR_GROUP = 10,        /* another error between the ranks of a group */
  EP4J_ERROR_SYSTEM = 11,       /* machine, memory, library, file, JVM */
  EP4J_ERROR_DEFECT = 12,       /* unexpected: a defect of ep4j */
  EP4J_ERROR_INTERRUPTED = 13   /* interrupt() has ended the wait of the call */
};

/* ep4j_tensor.device of host memory; from 0 on, the ordinal of a GPU. */
#define EP4J_HOST (-1)

/*
 * A tensor of one to three dimensions over memory of another owner. 0 dimensions: no tensor.
 *
 * Inputs are row-major without gaps; their strides may also be all 0. Scales may be column-major,
 * shape [T, S] and strides {1, A}, A >= T: the elements of a column are adjacent. Results have their
 * strides filled in.
 */
typedef struct ep4j_tensor {
  void *data;         /* first element: an address of the host, or of the GPU */
  int64_t shape[3];   /* extents in elements, outermost first */
  int64_t strides[3]; /* in elements */
  int32_t dimensions;
  int32_t dtype;  /* EP4J_BF16 and so on */
  int32_t device; /* EP4J_HOST or the ordinal of the GPU */
  int32_t reserved;
} ep4j_tensor;

/* The last error of a thread. */
typedef struct ep4j_error {
  uint64_t size;
  int32_t code; /* as the function returned it; 0: no call of this thread has failed yet */
  int32_t kind; /* EP4J_ERROR_ARGUMENT and so on */
  int32_t rank; /* the rank at fault, or -1 */
  int32_t reserved;
  char text[4072]; /* UTF-8, ends with 0; what is wrong and what to do, begins with "EP4J-1432: " */
} ep4j_error;

/* How a rank finds its group. All times are in milliseconds. */
typedef struct ep4j_group_config {
  uint64_t size;
  int32_t rank;       /* this rank, from 0 */
  int32_t ranks;      /* number of ranks */
  const char *host;   /* host name or address of the rendezvous; NULL: 127.0.0.1 */
  const char *secret; /* known to the ranks of the job only; required for more than one rank */
  const char *job;    /* name of the job, or NULL */
  int32_t port;       /* TCP port of the rendezvous; 0: 29400 */
  int32_t hosting;    /* host of the rendezvous: 0 rank 0, 1 this process, 2 another process */
  int64_t join_timeout_ms; /* wait for all ranks; 0: 60 s */
  int64_t heartbeat_ms;    /* 0: 250 ms */
  int64_t liveness_ms;     /* silence after which a rank counts as dead; 0: 2 s */
} ep4j_group_config;

/* A group as seen by this rank. */
typedef struct ep4j_group_info {
  uint64_t size;
  int32_t rank;
  int32_t ranks;      /* departed ones included */
  int32_t in_process; /* 1: all ranks are threads of this process */
  int32_t reserved;
  char job_id[48]; /* the same on all ranks, different from other jobs on these hosts */
} ep4j_group_info;

/* A rank as seen by this rank. */
typedef struct ep4j_rank_state {
  uint64_t size;
  int32_t alive;
  int32_t incarnation;     /* restarted processes that have replaced the rank so far */
  int32_t has_replacement; /* 1: a restarted process waits for group_readmit */
  int32_t reserved;
  char address[64]; /* IP address at which this rank reaches the host of the rank */
  char report[512]; /* how and when the departure was noticed; empty while it is alive */
} ep4j_rank_state;

/* Bits of ep4j_buffer_config.wire_options: which of the wire's settings count. */
enum {
  EP4J_WIRE_LANES = 1,
  EP4J_WIRE_QUEUE_PAIRS = 2,
  EP4J_WIRE_SERVICE_LEVEL = 4,
  EP4J_WIRE_TRAFFIC_CLASS = 8,
  EP4J_WIRE_GPU_DIRECT = 16
};

/* Bits of ep4j_buffer_config.layouts. */
enum { EP4J_LAYOUT_FLAT = 1, EP4J_LAYOUT_EXPERT_MAJOR = 2 };

/*
 * Shape and limits of a buffer; the same on every rank. It has high-throughput operations
 * (max_tokens > 0), low-latency operations (low_latency_max_tokens > 0), or both.
 */
typedef struct ep4j_buffer_config {
  uint64_t size;
  int32_t hidden;                /* largest number of elements of a row, H */
  int32_t top_k;                 /* largest number of choices of a token, K, 1 to 64 */
  int32_t experts;               /* number of experts, E */
  int32_t parallelism;           /* SMs or threads of an operation; 0: the engine chooses */
  const int32_t *rank_of_expert; /* [E], or NULL: consecutive blocks */
  int32_t max_tokens;            /* high throughput: tokens per rank; 0: no such operations */
  int32_t row_dtype;             /* widest row type that is sent; 0: BF16 */
  int64_t max_receive_rows;      /* rows of the receive region; 0: the worst case */
  int32_t expert_alignment;      /* largest alignment of a call; 0: 128 */
  int32_t combine_in_place;      /* 1: combine_input is the memory of the received rows */
  int32_t low_latency_max_tokens; /* low latency: tokens per rank, M; 0: no such operations */
  int32_t masking;               /* 1: low-latency operations mask late ranks instead of failing */
  int64_t timeout_ms;            /* wait for a silent peer; 0: 30 s */
  const char *engine;            /* "host", "cuda"; NULL: "auto" */
  const char *wire;              /* "tcp", "verbs", "ucx", ... between nodes; NULL: "auto" */
  const char *backend;           /* "direct", "nccl", "nvshmem" between GPUs; NULL: "auto" */
  int32_t ranks_per_node;        /* consecutive ranks of a node; 0: those of a host, or of hosts that NVLink joins */
  int32_t wire_options;          /* bits EP4J_WIRE_LANES and so on; others come from EP4J_IB_* */
  int32_t wire_lanes;            /* lanes to each peer */
  int32_t wire_queue_pairs;      /* verbs: queue pairs to each peer on each port */
  int32_t wire_service_level;    /* verbs: 0 to 15 */
  int32_t wire_traffic_class;    /* verbs: 0 to 255 */
  int32_t wire_gpu_direct;       /* verbs: 1: ports read and write GPU memory */
  int32_t layouts;               /* bits EP4J_LAYOUT_*: of high-throughput dispatches; 0: FLAT */
  int32_t lost_ranks;            /* GPUs: ranks of each node that may be lost while reset continues */
  int32_t reserved;
} ep4j_buffer_config;

/* An open buffer with the choices of the engine. */
typedef struct ep4j_buffer_info {
  uint64_t size;
  int32_t rank;
  int32_t ranks;
  int32_t experts;
  int32_t local_experts; /* experts of this rank, L */
  int32_t parallelism;   /* now */
  int32_t ranks_per_node;
  int64_t max_receive_rows; /* 0 without high-throughput operations */
  char engine[32];
  char wire[32];
  char backend[32];
} ep4j_buffer_info;

/* Memory that a buffer reserves on each rank, in bytes. */
typedef struct ep4j_buffer_sizes {
  uint64_t size;
  int64_t symmetric_bytes;   /* memory that peers can reach */
  int64_t private_bytes;     /* memory of the rank alone, when the buffer is open */
  int64_t low_latency_bytes; /* the part of symmetric_bytes that low-latency operations need */
  int64_t first_use_bytes;   /* memory of the rank alone that operations add at their first use */
} ep4j_buffer_sizes;

/* Counters of this rank since the buffer was opened. */
typedef struct ep4j_statistics {
  uint64_t size;
  int64_t dispatches;
  int64_t combines;
  int64_t low_latency_dispatches;
  int64_t low_latency_combines;
  int64_t rows_sent;     /* own ones included */
  int64_t rows_received; /* own ones included */
  int64_t payload_bytes_sent;
  int64_t symmetric_bytes;
  int64_t private_bytes;
  int64_t abandoned_threads; /* threads of the process that a native library does not return */
  int64_t wire_paths;        /* number of paths that wire_path() describes */
  int64_t combines_in_place; /* combines for which the rows of this rank lay where its node can read them */
} ep4j_statistics;

/* What this rank has seen, see buffer_observe. */
typedef struct ep4j_observation {
  uint64_t size;
  int64_t operations;      /* the last ones that nanoseconds, rows and waits count: up to 200, a multiple of 20 */
  int64_t nanoseconds;     /* from the first of these to the end of the last */
  int64_t rows;            /* that these received, own ones included */
  int64_t timeouts;        /* operations that ended in a timeout since the buffer was opened */
  int32_t timeout_peer;    /* the rank for which the last of those waited; -1: none */
  int32_t reserved;
} ep4j_observation;

/* What makes the ranks of a buffer wait, see buffer_verdict. */
typedef struct ep4j_verdict {
  uint64_t size;
  int32_t cause;       /* EP4J_VERDICT_TOO_EARLY and so on */
  int32_t rank;        /* the slow or overloaded rank, of a slow link its receiver; -1: none */
  int32_t sender;      /* of a slow link; otherwise -1 */
  int32_t percent;     /* of the time of an operation that it costs */
  int64_t saved_nanoseconds; /* by which an operation would be shorter without it */
  char text[256];      /* one sentence for people */
} ep4j_verdict;

/* A path over which the wire `verbs` sends to another rank. */
typedef struct ep4j_wire_path {
  uint64_t size;
  int32_t peer;
  int32_t queue_pair;
  int64_t bytes;
  char port[64]; /* "mlx5_0:1" */
} ep4j_wire_path;

/* When an operation starts, where it runs and when its call returns. All 0: at once, returns at the end. */
typedef struct ep4j_execution {
  uint64_t stream;     /* a CUstream; counts if on_stream is 1, so 0 is the default stream */
  ep4j_event previous; /* the operation first waits for this event; 0: none */
  int32_t on_stream;   /* 1: on the stream; results are ready in its order. Device engines only */
  int32_t async;       /* 1: the call returns before the end; event and *_result wait for it */
} ep4j_execution;

/* Arguments of dispatch. T tokens of this rank, H elements a row, K choices a token. */
typedef struct ep4j_dispatch_args {
  uint64_t size;
  ep4j_tensor x;             /* rows [T, H] */
  ep4j_tensor scales;        /* FP8, NVFP4: [T, S], FP32, INT32, UE8M0 or FP8_E4M3; may be column-major */
  ep4j_tensor global_scales; /* NVFP4: FP32 [T] */
  ep4j_tensor topk_idx;      /* INT64 or INT32 [T, K]; -1: no expert. Absent with a handle */
  ep4j_tensor topk_weights;  /* FP32 [T, K], or absent. Absent with a handle */
  ep4j_handle handle;        /* cached dispatch: send along these routes, with the T of the handle.
                                The handle also holds max_rows to scale_columns: those here are ignored */
  ep4j_execution execution;
  int64_t max_rows;         /* 0: exact, the call waits for the counts; else the caller's number of rows */
  int32_t layout;           /* 0 or EP4J_FLAT, or EP4J_EXPERT_MAJOR; the same on all ranks */
  int32_t experts;          /* experts of this call, E/R consecutive ones a rank; 0: those of the buffer */
  int32_t expert_alignment; /* counts and starts of groups are multiples of it; 0: 1 */
  int32_t zero_padding;     /* 1: clears rows between groups */
  int32_t scale_columns;    /* 1: received scales are column-major */
  int32_t reserved;
  ep4j_tensor logical_idx;  /* INT64 or INT32 [T, K]: what orders sums by experts where topk_idx names
                               replicas; absent: topk_idx. Absent with a handle */
} ep4j_dispatch_args;

/*
 * What a dispatch delivers: N rows, L local experts, R ranks. Valid until the next dispatch or reset of
 * the buffer; `handle` until it is closed. Absent tensors have 0 dimensions.
 */
typedef struct ep4j_dispatch_result {
  uint64_t size;
  ep4j_result result;
  ep4j_handle handle; /* the caller closes it; a cached dispatch returns the handle that it got */
  ep4j_event event;   /* async: the caller closes it; else 0 */
  int64_t rows;       /* N; with EXPERT_MAJOR and exact rows, padding included */
  ep4j_tensor x;      /* [N, H] */
  ep4j_tensor scales; /* as sent, [N, S] */
  ep4j_tensor global_scales;  /* FP32 [N] */
  ep4j_tensor topk_idx;       /* FLAT: INT64 [N, K], local expert or -1; absent if cached */
  ep4j_tensor topk_weights;   /* FLAT: FP32 [N, K]; absent if cached or sent without weights */
  ep4j_tensor row_weights;    /* EXPERT_MAJOR: FP32 [N]; absent if cached or sent without weights */
  ep4j_tensor source_tokens;  /* INT32 [N]: token number at its source; -1 on padding */
  ep4j_tensor source_ranks;   /* INT32 [N]; -1 on padding */
  /* Counts. With max_rows or a handle, dispatch leaves them absent: dispatch_result waits for them. */
  int64_t received_rows;      /* rows with a token; with max_rows it may exceed N */
  int64_t missing_rows;       /* rows that did not fit: combine omits them */
  ep4j_tensor aligned_counts; /* INT32 [L]: tokens of each local expert, rounded up to the alignment */
  ep4j_tensor counts;         /* INT32 [L]: tokens of each local expert */
  ep4j_tensor rank_offsets;   /* FLAT: INT64 [R + 1], first row from each rank, then the end */
  ep4j_tensor expert_offsets; /* EXPERT_MAJOR: INT64 [L + 1], first row of each group, then the end */
} ep4j_dispatch_result;

/* Arguments of combine. Routing weights are not applied unless apply_weights is 1. */
typedef struct ep4j_combine_args {
  uint64_t size;
  ep4j_tensor y; /* BF16, FP16 or FP32, at least [N, H], rows in the order of the dispatch */
  ep4j_handle handle;
  ep4j_tensor topk_weights; /* FP32 [N, K] (FLAT) or [N]: summed back to the sources; or absent */
  ep4j_tensor bias0;        /* [T, H], added first; or absent */
  ep4j_tensor bias1;        /* [T, H], added second; only with bias0 */
  ep4j_tensor out;          /* [T, H] of the caller for the sums; absent: memory of the buffer */
  ep4j_execution execution;
  int32_t apply_weights;   /* 1: EXPERT_MAJOR rows are multiplied by the weights of their dispatch */
  int32_t single_rounding; /* 1: sums are rounded once only; more traffic between nodes */
  int32_t by_experts;      /* 1: EXPERT_MAJOR rows are added in ascending order of experts: the bits of
                              a token depend on the token alone. On GPUs y is the received x, between
                              nodes of a buffer with combine_in_place */
  int32_t reserved;
} ep4j_combine_args;

/* Valid until the next combine or reset of the buffer; sums in the caller's `out` stay there. */
typedef struct ep4j_combine_result {
  uint64_t size;
  ep4j_result result;
  ep4j_event event;         /* async: the caller closes it; else 0 */
  ep4j_tensor x;            /* sums [T, H] in the dtype of y */
  ep4j_tensor topk_weights; /* FP32 [T, K] if weights were passed */
} ep4j_combine_result;

/* Traffic of a routing. Valid until the next dispatch_layout of the buffer. */
typedef struct ep4j_layout_result {
  uint64_t size;
  ep4j_tensor tokens_per_rank;   /* INT32 [R] */
  ep4j_tensor tokens_per_node;   /* INT32 [nodes] */
  ep4j_tensor tokens_per_expert; /* INT32 [E] */
  ep4j_tensor token_in_rank;     /* UINT8 [T, R]: 1 if the token is sent to the rank */
} ep4j_layout_result;

/* Arguments of low_latency_dispatch. T at most M, H a multiple of 128. */
typedef struct ep4j_low_latency_dispatch_args {
  uint64_t size;
  ep4j_tensor x;                /* BF16 [T, H] */
  ep4j_tensor topk_idx;         /* INT64 or INT32 [T, K]; -1: no expert */
  ep4j_tensor topk_weights;     /* FP32 [T, K], or absent */
  ep4j_tensor cumulative_stats; /* INT32 [L], incremented by the tokens received; or absent */
  ep4j_tensor wait_stats;       /* INT64 [R], incremented by the nanoseconds waited; or absent */
  ep4j_tensor global_scale;     /* NVFP4: FP32 [1], 448 * 6 / amax of the tensor; absent: 1. A kernel reads it */
  ep4j_execution execution;
  int32_t layout;          /* 0 or EP4J_EXPERT_MAJOR, or EP4J_RANK_MAJOR; the same on all ranks */
  int32_t experts;         /* as in dispatch */
  int32_t format;          /* EP4J_ROWS_BF16 and so on; 0: FP8 */
  int32_t scale_kind;      /* EP4J_SCALES_FLOAT32 and so on; 0: FLOAT32 */
  int32_t scale_columns;   /* 1: received scales are column-major */
  int32_t deliver_weights; /* 1: EXPERT_MAJOR rows arrive with their weights; the same on all ranks */
  int32_t return_hook;     /* 1: the call only sends, low_latency_receive receives; excludes async */
  int32_t reserved;        /* 0 */
} ep4j_low_latency_dispatch_args;

/*
 * What a low-latency dispatch delivers, in G groups of up to P rows: EXPERT_MAJOR G = L, P = R*M;
 * RANK_MAJOR G = R, P = M. Only the first counts[g] rows of a group are valid. Valid until the second
 * next low-latency dispatch. With return_hook, low_latency_receive fills the memory of the tensors: their
 * contents are undefined before. With async, the call fills `result` and `event` only:
 * low_latency_dispatch_result fills the rest after the end.
 */
typedef struct ep4j_low_latency_dispatch_result {
  uint64_t size;
  ep4j_result result;       /* also the handle of the combine */
  ep4j_event event;         /* async: the caller closes it; else 0 */
  ep4j_tensor x;            /* [G, P, H] */
  ep4j_tensor scales;       /* [G, P, S]: FP32, UE8M0, INT32; NVFP4: FP8_E4M3. Absent for BF16 */
  ep4j_tensor counts;       /* INT32 [G] */
  ep4j_tensor topk_idx;     /* RANK_MAJOR: INT64 [R, M, K], local expert or -1 */
  ep4j_tensor topk_weights; /* RANK_MAJOR: FP32 [R, M, K], if sent */
  ep4j_tensor row_weights;  /* EXPERT_MAJOR: FP32 [L, R*M], with deliver_weights */
  ep4j_tensor src_info;     /* INT32 [G, P]: source token of each row */
  ep4j_tensor layout_range; /* INT64 [L, R] or [R]: count in the low, first row in the high 32 bits */
} ep4j_low_latency_dispatch_result;

/* Arguments of low_latency_combine, which applies the weights (RANK_MAJOR: the caller has). */
typedef struct ep4j_low_latency_combine_args {
  uint64_t size;
  ep4j_result dispatched;   /* `result` of the dispatch */
  ep4j_tensor y;            /* BF16 [G, P, H] in the row order of the dispatch */
  ep4j_tensor topk_idx;     /* as dispatched; an id that is now -1 skips its slot */
  ep4j_tensor topk_weights; /* FP32 [T, K] */
  ep4j_tensor out;          /* BF16 [T, H] of the caller; absent: memory of the buffer */
  ep4j_tensor wait_stats;   /* INT64 [R], incremented by the nanoseconds waited; or absent */
  ep4j_execution execution;
  int32_t log_fmt;          /* 1: rows travel as LogFMT-10; excludes the next two */
  int32_t zero_copy;        /* 1: y is the tensor of low_latency_combine_input */
  int32_t partial_rounding; /* 1: each rank sums its rows of a token and rounds once */
  int32_t return_hook;      /* 1: the call only sends, low_latency_receive receives; excludes async */
  int32_t by_experts;       /* 1: rows are added in ascending order of experts; excludes partial_rounding */
  int32_t reserved;
  ep4j_tensor logical_idx;  /* INT64 or INT32 [T, K]: what orders the rows; absent: topk_idx */
} ep4j_low_latency_combine_args;

/* Valid until the second next low-latency combine; with return_hook or async, x is filled later. */
typedef struct ep4j_low_latency_combine_result {
  uint64_t size;
  ep4j_result result;
  ep4j_event event; /* async: the caller closes it; else 0 */
  ep4j_tensor x;    /* weighted sums, BF16 [T, H] */
} ep4j_low_latency_combine_result;

/* The functions. Later versions append some: check `size` before the use of a newer one. */
typedef struct ep4j_api {
  uint64_t size;    /* bytes of this table */
  uint64_t version; /* EP4J_ABI_VERSION of the jars */

  /* Errors and objects. */

  /* The last failed call of this thread; a success does not clear it. */
  int32_t (*last_error)(ep4j_error *error);
  /* Closes a group, a buffer, a handle, an event or a counter. 0 and what is closed already: no effect. A
     group: leaves in good order; close its buffers before. A buffer: waits for queued operations. */
  int32_t (*close)(uint64_t object);

  /* Groups. Timeouts are in milliseconds. */

  /* Joins the group for which this process was started: EP4J_RANK and so on, torchrun, mpirun, srun.
     Without such variables a group of one rank. */
  int32_t (*group_from_environment)(ep4j_group *group);
  /* Joins a group, and returns when all ranks have joined. */
  int32_t (*group_join)(const ep4j_group_config *config, ep4j_group *group);
  /* Replaces a departed rank, and returns when the live ranks have called group_readmit. */
  int32_t (*group_rejoin)(const ep4j_group_config *config, ep4j_group *group);
  /* A group whose ranks are threads of this process: fills groups[ranks], one for each thread. The thread
     that was the last to call a collective function of a rank's group, or to open or reset a buffer of
     the rank, owns the rank: two seconds after its end the rank is lost. */
  int32_t (*group_in_process)(int32_t ranks, ep4j_group *groups);
  int32_t (*group_info)(ep4j_group group, ep4j_group_info *info);
  int32_t (*group_rank_state)(ep4j_group group, int32_t rank, ep4j_rank_state *state);
  /* Collective: all ranks pass `bytes` bytes (the same number, or EP4J_ERROR_MISMATCH; up to 1 MiB) and
     receive those of all ranks in rank order, received[ranks * bytes]. */
  int32_t (*group_all_gather)(ep4j_group group, const void *mine, int64_t bytes, void *received,
                              int64_t timeout_ms);
  /* Collective: returns when all ranks have called it. */
  int32_t (*group_barrier)(ep4j_group group, int64_t timeout_ms);
  /* Collective among the live ranks: a new group of them, renumbered from 0. */
  int32_t (*group_survivors)(ep4j_group group, int64_t timeout_ms, ep4j_group *survivors);
  /* Collective among the live ranks: admits restarted processes that wait in group_rejoin. Writes
     their number to *count, and up to `capacity` of their ranks, ascending, to `ranks`. */
  int32_t (*group_readmit)(ep4j_group group, int64_t timeout_ms, int32_t *ranks, int32_t capacity,
                           int32_t *count);
  /* Marks this rank as lost, notifies the others at once, and closes the group. */
  int32_t (*group_fail)(ep4j_group group, const char *why);

  /* Buffers. */

  /* Memory that a buffer reserves on each of `ranks` ranks; opens nothing. */
  int32_t (*buffer_sizes)(const ep4j_buffer_config *config, int32_t ranks, ep4j_buffer_sizes *sizes);
  /* Opens a buffer on every rank of the group; collective. The group stays open until the buffer is
     closed. */
  int32_t (*buffer_open)(ep4j_group group, const ep4j_buffer_config *config, ep4j_buffer *buffer);
  /* Opens the buffer of a restarted rank, after group_rejoin; the others call buffer_readmit. */
  int32_t (*buffer_rejoin)(ep4j_group group, const ep4j_buffer_config *config, ep4j_buffer *buffer);
  int32_t (*buffer_info)(ep4j_buffer buffer, ep4j_buffer_info *info);
  /* Rank of each expert, rank_of_expert[experts]. */
  int32_t (*buffer_placement)(ep4j_buffer buffer, int32_t *rank_of_expert, int32_t experts);
  int32_t (*buffer_statistics)(ep4j_buffer buffer, ep4j_statistics *statistics);
  /* Path `index` of the wire, from 0 to ep4j_statistics.wire_paths - 1. */
  int32_t (*buffer_wire_path)(ep4j_buffer buffer, int32_t index, ep4j_wire_path *path);
  /* SMs or threads that later operations may use; 0: the engine chooses. */
  int32_t (*buffer_set_parallelism)(ep4j_buffer buffer, int32_t parallelism);
  /* Runs the configured operations with a few zeros, so that later calls take their usual time;
     collective. */
  int32_t (*buffer_warm_up)(ep4j_buffer buffer);
  /* Returns when all ranks have called it that buffer_reset has not left out; collective. Masks do not
     count: a masked rank that lives calls it too, and one that is dead is an error. */
  int32_t (*buffer_barrier)(ep4j_buffer buffer);
  /* Makes the buffer usable after EP4J_ERROR_PEER_TIMEOUT; collective among the live ranks. Results and
     handles before it are outdated. */
  int32_t (*buffer_reset)(ep4j_buffer buffer);
  /* Readmits restarted ranks; collective among the live ranks, after group_readmit. */
  int32_t (*buffer_readmit)(ep4j_buffer buffer);

  /* High throughput. */

  /* Counts tokens per rank, node and expert of topk_idx [T, K]; local. `experts` as in dispatch. Does not wait
     for a stream that still writes topk_idx; routing_counter_count takes a stream. */
  int32_t (*dispatch_layout)(ep4j_buffer buffer, const ep4j_tensor *topk_idx, int32_t experts,
                             ep4j_layout_result *result);
  /* Sends rows to the ranks of their experts; collective. Bits of rows and scales do not change. */
  int32_t (*dispatch)(ep4j_buffer buffer, const ep4j_dispatch_args *args,
                      ep4j_dispatch_result *result);
  /* Waits for the end and the counts of an operation, and fills the structure. */
  int32_t (*dispatch_result)(ep4j_result dispatched, ep4j_dispatch_result *result);
  /* The region [capacity, H] that peers read without a copy, for rows of `dtype` in the order of the
     dispatch. Only the first N rows have memory. */
  int32_t (*combine_input)(ep4j_result dispatched, int32_t dtype, ep4j_tensor *input);
  /* Returns rows to their sources and sums them per token; collective. */
  int32_t (*combine)(ep4j_buffer buffer, const ep4j_combine_args *args, ep4j_combine_result *result);
  int32_t (*combine_result)(ep4j_result combined, ep4j_combine_result *result);

  /* Low latency: at most two dispatches or combines in flight. */

  int32_t (*low_latency_dispatch)(ep4j_buffer buffer, const ep4j_low_latency_dispatch_args *args,
                                  ep4j_low_latency_dispatch_result *result);
  int32_t (*low_latency_dispatch_result)(ep4j_result dispatched,
                                         ep4j_low_latency_dispatch_result *result);
  /* The region [G, P, H] from which the next low_latency_combine with zero_copy sends. */
  int32_t (*low_latency_combine_input)(ep4j_result dispatched, ep4j_tensor *input);
  int32_t (*low_latency_combine)(ep4j_buffer buffer, const ep4j_low_latency_combine_args *args,
                                 ep4j_low_latency_combine_result *result);
  int32_t (*low_latency_combine_result)(ep4j_result combined,
                                        ep4j_low_latency_combine_result *result);
  /* The receiving half of a dispatch or combine with return_hook; once, before the second next
     low-latency operation. */
  int32_t (*low_latency_receive)(ep4j_result operation);

  /* Masks: operations send nothing to a masked rank and do not wait for it. */

  int32_t (*mask_set)(ep4j_buffer buffer, int32_t rank, int32_t masked);
  int32_t (*mask_get)(ep4j_buffer buffer, int32_t rank, int32_t *masked);
  /* Writes 1 for masked ranks and 0 for others, INT32 [R], also on the buffer's GPU. Does not wait for a stream
     that still uses the tensor. */
  int32_t (*mask_read)(ep4j_buffer buffer, const ep4j_tensor *mask);
  /* Unmasks all ranks; on all ranks, while none is inside a low-latency operation. */
  int32_t (*mask_clear)(ep4j_buffer buffer);

  /* Events. */

  /* *done: whether the operation has ended. */
  int32_t (*event_query)(ep4j_event event, int32_t *done);
  /* Waits until the operation has ended, at most timeout_ms (negative: as long as the operation may
     take); returns its error. *done: whether it has ended. */
  int32_t (*event_wait)(ep4j_event event, int64_t timeout_ms, int32_t *done);

  /* Tensors, and routings as dense matrices. These functions do not wait for a stream that still writes an
     argument or reads a result. */

  /* Copies all elements to host memory. */
  int32_t (*tensor_read)(const ep4j_tensor *tensor, void *target);
  /* Copies all elements from host memory. */
  int32_t (*tensor_write)(const ep4j_tensor *tensor, const void *source);
  /* From a map UINT8 [T, E] (not 0: chosen) and weights FP32 [T, E] (or NULL) to topk_idx INT64 [T, K]
     and topk_weights FP32 [T, K] (NULL without weights). Ids ascend; free slots have -1 and 0. */
  int32_t (*routing_from_dense)(const ep4j_tensor *map, const ep4j_tensor *probs,
                                const ep4j_tensor *topk_idx, const ep4j_tensor *topk_weights);
  /* The reverse for weights: FP32 [T, K] to FP32 [T, E], 0 where a token does not have the expert. */
  int32_t (*routing_to_dense)(const ep4j_tensor *topk_idx, const ep4j_tensor *topk_weights,
                              const ep4j_tensor *probs);

  /* Interrupts. */

  /* *caller: the number of the calling thread, for interrupt. The thread keeps it. */
  int32_t (*caller)(uint64_t *caller);
  /* Ends the wait of the call that this thread is in, within a second; from any thread, but not from a
     signal handler. That call returns its error:

       EP4J-3036  a function of a group, one that opens, resets or readmits a buffer, buffer_barrier on
                  the CUDA engine; a barrier or all_gather counts as called on this rank
       EP4J-4003  the wait for an asynchronous operation, which continues; wait again
       EP4J-4005  an operation; the buffer needs buffer_reset. The other ranks get the reason at once, as
                  EP4J_ERROR_PEER_TIMEOUT; in buffer_barrier on the CUDA engine at its timeout

     No effect on a call that does not wait, between calls, on later calls, and after the end of the
     thread. Repeat the interrupt until the call has ended: at first it may not have begun. */
  int32_t (*interrupt)(uint64_t caller);

  /* Counts of routings without a buffer. */

  /* A counter for tensors of `device`: EP4J_HOST or the ordinal of a GPU. node_of_rank[ranks]: 0, then the
     number before or one more. Loads a kernel: open it while no operation of a buffer is in flight on the
     GPU. Close it with `close`, after its last count has been executed. */
  int32_t (*routing_counter_open)(int32_t device, const int32_t *node_of_rank, int32_t ranks,
                                  ep4j_routing_counter *counter);
  /* Counts tokens per rank, node and expert of topk_idx [T, K], INT64 or INT32, into the tensors of
     *counts, which are the caller's: all four, E a multiple of R, experts on the ranks in blocks. An id
     that names no expert counts as -1. Local. On a GPU enqueued on `stream`, a CUstream or 0, and may be
     captured; on the host complete at the return. Any thread, one at a time. */
  int32_t (*routing_counter_count)(ep4j_routing_counter counter, const ep4j_tensor *topk_idx,
                                   uint64_t stream, const ep4j_layout_result *counts);

  /* Slow ranks and links. */

  /* What this rank has seen in its last operations. waited[ranks]: nanoseconds for which it waited for each
     rank; tokens[local_experts]: tokens of its experts since the buffer was opened, by local number; either
     may be NULL, and its number is then ignored. Never waits. Any thread, also while another one is inside
     an operation. Operations count in steps of 20, without the last, incomplete step. On GPUs a step counts
     once the operation behind it has ended, and tokens are those of the last step that counts. */
  int32_t (*buffer_observe)(ep4j_buffer buffer, ep4j_observation *observation, int64_t *waited,
                            int32_t ranks, int64_t *tokens, int32_t local_experts);
  /* Gathers what all ranks have seen and judges it; collective among the ranks of `group`, the group of the
     buffer, between any operations. All ranks receive the same verdict. */
  int32_t (*buffer_verdict)(ep4j_buffer buffer, ep4j_group group, int64_t timeout_ms,
                            ep4j_verdict *verdict);
} ep4j_api;

/*
 * Starts the JVM of this process, or uses its present JVM, and sets *api. Any thread, which may end
 * afterwards; a second call returns the same table. About 0.3 s. After a failed start a call tries again,
 * but a JVM that failed while it started may refuse to start again in this process.
 *
 *   EP4J_HOME         directory of an unpacked bundle or of a built clone
 *   EP4J_JAVA_HOME    a JDK or Java runtime 25; default the runtime of the bundle, then JAVA_HOME
 *   EP4J_JVM_OPTIONS  further options of the JVM, separated by spaces
 *
 * A process that has a JVM already needs the jars of EP4J_HOME on the class path of that JVM.
 *
 * error: filled on failure (its size need not be set); may be NULL.
 *
 *   EP4J-1041  api is NULL
 *   EP4J-2010  the process was forked after the JVM of its parent had started
 *   EP4J-6130  EP4J_HOME is not set, has no jars, or has a ':' in its name
 *   EP4J-6131  there is no library of a JVM
 *   EP4J-6132  the JVM does not start, or does not accept the thread
 *   EP4J-6133  the JVM does not load the classes of ep4j
 */
int32_t ep4j_start(const ep4j_api **api, ep4j_error *error);

/* A row-major tensor; extents that are not used are 0. `device` is EP4J_HOST or the ordinal of a GPU. */
static inline ep4j_tensor ep4j_tensor_at(const void *data, int32_t dtype, int32_t device,
                                         int64_t d0, int64_t d1, int64_t d2) {
  ep4j_tensor tensor;
  tensor.data = (void *)(uintptr_t)data;
  tensor.shape[0] = d0;
  tensor.shape[1] = d1;
  tensor.shape[2] = d2;
  tensor.strides[0] = tensor.strides[1] = tensor.strides[2] = 0;
  tensor.dimensions = d2 > 0 ? 3 : d1 > 0 ? 2 : 1;
  tensor.dtype = dtype;
  tensor.device = device;
  tensor.reserved = 0;
  return tensor;
}

#ifdef __cplusplus
}
#endif

#endif /* EP4J_H */

#if defined(EP4J_IMPLEMENTATION) && !defined(EP4J_IMPLEMENTED)
#define EP4J_IMPLEMENTED

#include <dirent.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#ifdef __cplusplus
extern "C" {
#elif defined(__STRICT_ANSI__)
/* With -std=c99 and the like, the headers hide this function of POSIX, the only one that is needed. */
extern int setenv(const char *name, const char *value, int replace);
#endif

/*
 * The JNI invocation interface as its specification defines it: a JavaVM and a JNIEnv point to a table
 * of functions. The numbers are positions in these tables.
 */
typedef void (*ep4j_jni_function)(void);
typedef const ep4j_jni_function *ep4j_jni_table;
enum {
  EP4J_VM_DETACH = 5,
  EP4J_VM_GET_ENV = 6,
  EP4J_VM_ATTACH_DAEMON = 7,
  EP4J_JNI_FIND_CLASS = 6,
  EP4J_JNI_EXCEPTION_OCCURRED = 15,
  EP4J_JNI_EXCEPTION_CLEAR = 17,
  EP4J_JNI_GET_OBJECT_CLASS = 31,
  EP4J_JNI_GET_METHOD_ID = 33,
  EP4J_JNI_CALL_OBJECT_METHOD_A = 36,
  EP4J_JNI_GET_STATIC_METHOD_ID = 113,
  EP4J_JNI_CALL_STATIC_LONG_METHOD_A = 134,
  EP4J_JNI_GET_STRING_UTF_CHARS = 169,
  EP4J_JNI_NO_MEMORY = -4, /* a status */
  EP4J_JNI_VERSION = 0x000a0000
};
typedef struct ep4j_jvm_option {
  char *text;
  void *extra;
} ep4j_jvm_option;
typedef struct ep4j_jvm_arguments {
  int32_t version;
  int32_t count;
  ep4j_jvm_option *options;
  unsigned char ignore_unknown;
} ep4j_jvm_arguments;
typedef int32_t (*ep4j_create_jvm)(ep4j_jni_table **vm, void **env, ep4j_jvm_arguments *arguments);
typedef int32_t (*ep4j_created_jvms)(ep4j_jni_table **vms, int32_t capacity, int32_t *count);

static int32_t ep4j_failed(ep4j_error *error, int32_t code, const char *format, ...) {
  if (error != NULL) {
    int length;
    va_list values;
    error->size = sizeof *error;
    error->code = code;
    error->kind = code == 1041   ? EP4J_ERROR_ARGUMENT
                  : code == 2010 ? EP4J_ERROR_USE
                                 : EP4J_ERROR_SYSTEM;
    error->rank = -1;
    error->reserved = 0;
    length = snprintf(error->text, sizeof error->text, "EP4J-%04d: ", (int)code);
    va_start(values, format);
    vsnprintf(error->text + length, sizeof error->text - (size_t)length, format, values);
    va_end(values);
  }
  return code;
}

/* A function of a library; ISO C has no conversion from an object's address to that of a function. */
static ep4j_jni_function ep4j_symbol(void *library, const char *name) {
  void *address = dlsym(library, name);
  ep4j_jni_function function;
  memcpy(&function, &address, sizeof function);
  return function;
}

static int ep4j_exists(const char *path) {
  struct stat status;
  return stat(path, &status) == 0;
}

/* The text of the pending exception, which is cleared. */
static void ep4j_take_exception(ep4j_jni_table *env, char *text, size_t capacity) {
  const ep4j_jni_function *jni = *env;
  void *exception = ((void *(*)(ep4j_jni_table *))jni[EP4J_JNI_EXCEPTION_OCCURRED])(env);
  snprintf(text, capacity, "unknown exception");
  ((void (*)(ep4j_jni_table *))jni[EP4J_JNI_EXCEPTION_CLEAR])(env);
  if (exception != NULL) {
    void *type = ((void *(*)(ep4j_jni_table *, void *))jni[EP4J_JNI_GET_OBJECT_CLASS])(env, exception);
    void *method = ((void *(*)(ep4j_jni_table *, void *, const char *, const char *))
                        jni[EP4J_JNI_GET_METHOD_ID])(env, type, "toString", "()Ljava/lang/String;");
    void *string = ((void *(*)(ep4j_jni_table *, void *, void *, const void *))
                        jni[EP4J_JNI_CALL_OBJECT_METHOD_A])(env, exception, method, NULL);
    if (string != NULL) {
      /* Not released: once a process. */
      const char *characters = ((const char *(*)(ep4j_jni_table *, void *, unsigned char *))
                                    jni[EP4J_JNI_GET_STRING_UTF_CHARS])(env, string, NULL);
      snprintf(text, capacity, "%s", characters == NULL ? "out of memory" : characters);
    }
    ((void (*)(ep4j_jni_table *))jni[EP4J_JNI_EXCEPTION_CLEAR])(env);
  }
}

/* The table of the JVM's classes. */
static int32_t ep4j_table_of(ep4j_jni_table *env, const char *jvm, const ep4j_api **api,
                             ep4j_error *error) {
  const ep4j_jni_function *jni = *env;
  char text[1024];
  int64_t address = 0;
  void *method = NULL;
  void *type = ((void *(*)(ep4j_jni_table *, const char *))jni[EP4J_JNI_FIND_CLASS])(
      env, "org/ep4j/c/Abi");
  if (type != NULL) {
    method = ((void *(*)(ep4j_jni_table *, void *, const char *, const char *))
                  jni[EP4J_JNI_GET_STATIC_METHOD_ID])(env, type, "table", "()J");
  }
  if (method != NULL) {
    address = ((int64_t(*)(ep4j_jni_table *, void *, void *, const void *))
                   jni[EP4J_JNI_CALL_STATIC_LONG_METHOD_A])(env, type, method, NULL);
  }
  if (address == 0) {
    ep4j_take_exception(env, text, sizeof text);
    return ep4j_failed(error, 6133,
                       "%s does not load org.ep4j.c.Abi (%s): it needs Java 25 or newer, and the jars"
                       " ep4j-c, ep4j-core and those of the engines on its class path",
                       jvm, text);
  }
  *api = (const ep4j_api *)(uintptr_t)address;
  return 0;
}

/*
 * Ends the attachment of this thread, which may end before the process does: the JVM would keep what it
 * knows of the thread. Functions of the table attach their thread until it ends.
 */
static void ep4j_detach(ep4j_jni_table *vm) {
  ((int32_t(*)(ep4j_jni_table *))(*vm)[EP4J_VM_DETACH])(vm);
}

/* The JVM that the process has already, or NULL. */
static ep4j_jni_table *ep4j_present_jvm(void) {
  ep4j_jni_table *vm = NULL;
  int32_t count = 0;
  ep4j_created_jvms created;
  void *library = dlopen("libjvm.so", RTLD_LAZY | RTLD_NOLOAD);
  if (library == NULL) {
    return NULL;
  }
  created = (ep4j_created_jvms)ep4j_symbol(library, "JNI_GetCreatedJavaVMs");
  return created != NULL && created(&vm, 1, &count) == 0 && count > 0 ? vm : NULL;
}

/* Whether a directory holds the jar of the C interface. */
static int ep4j_has_jars(const char *directory) {
  struct dirent *entry;
  int found = 0;
  DIR *listing = opendir(directory);
  if (listing != NULL) {
    while ((entry = readdir(listing)) != NULL) {
      found |= strncmp(entry->d_name, "ep4j-c-", 7) == 0;
    }
    closedir(listing);
  }
  return found;
}

/* The directory of jars below EP4J_HOME: that of a bundle, or the newer one of a clone. */
static int ep4j_find_jars(const char *home, char *directory, size_t capacity) {
  static const char *const PLACES[] = {"lib", "ep4j-cli/target/lib", "ep4j-cli/target/quick/lib"};
  char candidate[4096];
  struct stat status;
  time_t newest = 0;
  size_t i;
  int found = 0;
  for (i = 0; i < sizeof PLACES / sizeof *PLACES; i++) {
    snprintf(candidate, sizeof candidate, "%s/%s", home, PLACES[i]);
    if (ep4j_has_jars(candidate) && stat(candidate, &status) == 0 &&
        (!found || status.st_mtime > newest)) {
      snprintf(directory, capacity, "%s", candidate);
      newest = status.st_mtime;
      found = 1;
    }
  }
  return found;
}

/* The option that names all jars of a directory; the caller frees it. NULL: no memory, or no directory. */
static char *ep4j_class_path(const char *directory) {
  static const char OPTION[] = "-Djava.class.path=";
  struct dirent *entry;
  size_t length = sizeof OPTION;
  DIR *listing = opendir(directory);
  char *option = listing == NULL ? NULL : (char *)malloc(length);
  if (option != NULL) {
    memcpy(option, OPTION, sizeof OPTION);
  }
  while (option != NULL && (entry = readdir(listing)) != NULL) {
    size_t name = strlen(entry->d_name);
    if (name > 4 && strcmp(entry->d_name + name - 4, ".jar") == 0) {
      size_t more = strlen(directory) + name + 2;
      char *longer = (char *)realloc(option, length + more);
      if (longer == NULL) {
        free(option);
        option = NULL;
        break;
      }
      option = longer;
      snprintf(option + length - 1, more + 1, "%s%s/%s", length == sizeof OPTION ? "" : ":", directory,
               entry->d_name);
      length = strlen(option) + 1;
    }
  }
  if (listing != NULL) {
    closedir(listing);
  }
  return option;
}

/* The JVM's library: EP4J_JAVA_HOME, the runtime of a bundle, JAVA_HOME. */
static int32_t ep4j_find_jvm(const char *home, char *path, size_t capacity, ep4j_error *error) {
  const char *java = getenv("EP4J_JAVA_HOME");
  const char *variable = "EP4J_JAVA_HOME";
  snprintf(path, capacity, "%s/runtime/lib/server/libjvm.so", home);
  if (java == NULL || *java == 0) {
    if (ep4j_exists(path)) {
      return 0;
    }
    java = getenv("JAVA_HOME");
    variable = "JAVA_HOME";
  }
  if (java == NULL || *java == 0) {
    return ep4j_failed(error, 6131,
                       "no JVM: neither EP4J_JAVA_HOME nor JAVA_HOME is set, and EP4J_HOME = %s has no"
                       " runtime: set EP4J_JAVA_HOME to the directory of a JDK 25",
                       home);
  }
  snprintf(path, capacity, "%s/lib/server/libjvm.so", java);
  if (!ep4j_exists(path)) {
    return ep4j_failed(error, 6131,
                       "no JVM: %s = %s, and %s does not exist: name the directory of a JDK 25", variable,
                       java, path);
  }
  return 0;
}

/* Makes a JVM with the options of ep4j and then those of `more`, which are cut at spaces. */
static int32_t ep4j_create_with(ep4j_create_jvm create, char *class_path, char *more,
                                ep4j_jni_table **vm, void **env) {
  static const char *const OPTIONS[] = {"-Xrs", "-XX:+UseSerialGC", "-Xmx512m",
                                        "--enable-native-access=ALL-UNNAMED",
                                        "--add-modules=jdk.incubator.vector"};
  enum { OWN = sizeof OPTIONS / sizeof *OPTIONS };
  ep4j_jvm_arguments arguments;
  int32_t status;
  int i;
  /* A further option and the space behind it are two characters at least. */
  arguments.options = (ep4j_jvm_option *)calloc(OWN + 2 + strlen(more) / 2, sizeof *arguments.options);
  if (arguments.options == NULL) {
    return EP4J_JNI_NO_MEMORY;
  }
  arguments.version = EP4J_JNI_VERSION;
  arguments.ignore_unknown = 0;
  arguments.count = 0;
  arguments.options[arguments.count++].text = class_path;
  for (i = 0; i < OWN; i++) {
    arguments.options[arguments.count++].text = (char *)(uintptr_t)OPTIONS[i];
  }
  for (more += strspn(more, " "); *more != 0; more += strspn(more, " ")) {
    arguments.options[arguments.count++].text = more;
    more += strcspn(more, " ");
    if (*more != 0) {
      *more++ = 0;
    }
  }
  status = create(vm, env, &arguments);
  free(arguments.options);
  return status;
}

/* Starts a JVM, which lives as long as the process. */
static int32_t ep4j_create(const ep4j_api **api, ep4j_error *error) {
  ep4j_jni_table *vm = NULL;
  ep4j_create_jvm create;
  void *env = NULL;
  void *library;
  char jars[4096];
  char path[4096];
  char *class_path;
  char *more;
  const char *extra = getenv("EP4J_JVM_OPTIONS");
  const char *home = getenv("EP4J_HOME");
  int32_t status;
  if (home == NULL || *home == 0) {
    return ep4j_failed(error, 6130,
                       "EP4J_HOME is not set: set it to the directory of an unpacked bundle or of a built"
                       " clone");
  }
  if (!ep4j_find_jars(home, jars, sizeof jars)) {
    return ep4j_failed(error, 6130,
                       "EP4J_HOME = %s; it must hold lib/ep4j-c-*.jar (a bundle) or"
                       " ep4j-cli/target/lib/ep4j-c-*.jar (a clone): unpack the bundle, or run"
                       " `./ep4j --version` in the clone, which builds it",
                       home);
  }
  if (strchr(jars, ':') != NULL) {
    return ep4j_failed(error, 6130,
                       "EP4J_HOME = %s has a ':', which separates the entries of a class path: move the"
                       " directory to a place without one",
                       home);
  }
  status = ep4j_find_jvm(home, path, sizeof path, error);
  if (status != 0) {
    return status;
  }
  library = dlopen(path, RTLD_NOW | RTLD_GLOBAL);
  create = library == NULL ? NULL : (ep4j_create_jvm)ep4j_symbol(library, "JNI_CreateJavaVM");
  if (create == NULL) {
    return ep4j_failed(error, 6131, "%s is not the library of a JVM (%s): name the directory of a JDK 25",
                       path, library == NULL ? dlerror() : "it has no JNI_CreateJavaVM");
  }
  /* Kernels that were compiled together with the bundle. */
  snprintf(path, sizeof path, "%s/kernels", home);
  if (ep4j_exists(path)) {
    setenv("EP4J_CUDA_PREBUILT", path, 0);
  }
  extra = extra == NULL ? "" : extra;
  class_path = ep4j_class_path(jars);
  more = (char *)malloc(strlen(extra) + 1);
  if (class_path == NULL || more == NULL) {
    status = ep4j_failed(error, 6132, "%s cannot be read, or the process has no memory: check both", jars);
  } else {
    strcpy(more, extra);
    status = ep4j_create_with(create, class_path, more, &vm, &env);
    if (status != 0) {
      status = ep4j_failed(error, 6132,
                           "the JVM does not start (JNI_CreateJavaVM returned %d; it prints the reason):"
                           " correct EP4J_JVM_OPTIONS = '%s' or free memory, and start the process again",
                           (int)status, extra);
    }
  }
  free(class_path);
  free(more);
  if (status == 0) {
    status = ep4j_table_of((ep4j_jni_table *)env, "the new JVM", api, error);
    ep4j_detach(vm);
  }
  return status;
}

/* Uses the JVM that the process has. */
static int32_t ep4j_adopt(ep4j_jni_table *vm, const ep4j_api **api, ep4j_error *error) {
  const ep4j_jni_function *functions = *vm;
  void *env = NULL;
  int32_t status;
  int attached = ((int32_t(*)(ep4j_jni_table *, void **, int32_t))functions[EP4J_VM_GET_ENV])(
                     vm, &env, EP4J_JNI_VERSION) == 0;
  if (!attached && ((int32_t(*)(ep4j_jni_table *, void **, void *))functions[EP4J_VM_ATTACH_DAEMON])(
                       vm, &env, NULL) != 0) {
    return ep4j_failed(error, 6132, "the JVM of this process does not accept this thread: start ep4j"
                                    " before that JVM is shut down");
  }
  status = ep4j_table_of((ep4j_jni_table *)env, "the JVM that this process has already", api, error);
  if (!attached) {
    ep4j_detach(vm);
  }
  return status;
}

/* The table of this process; NULL before the start. Written under the lock of ep4j_start. */
static const ep4j_api *ep4j_started;

/* In the place of every function of the table; the caller removes the arguments. */
static int32_t ep4j_refuse(void) {
  return 2010;
}

/*
 * Runs in each forked child. A call that enters the JVM there may wait for ever, already to attach its
 * thread: the JVM's own threads are not in the child. So no function of the table leads there.
 */
static void ep4j_in_child(void) {
  int32_t (*const refuse)(void) = ep4j_refuse;
  char *table = (char *)(uintptr_t)ep4j_started;
  size_t at;
  for (at = offsetof(ep4j_api, last_error); at < ep4j_started->size; at += sizeof refuse) {
    memcpy(table + at, &refuse, sizeof refuse);
  }
}

int32_t ep4j_start(const ep4j_api **api, ep4j_error *error) {
  static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
  static pid_t owner;
  int32_t status = 0;
  if (api == NULL) {
    return ep4j_failed(error, 1041, "api = NULL; it must be a pointer: pass the address of a variable");
  }
  pthread_mutex_lock(&lock);
  if (ep4j_started == NULL) {
    ep4j_jni_table *present = ep4j_present_jvm();
    const ep4j_api *table = NULL;
    status = present == NULL ? ep4j_create(&table, error) : ep4j_adopt(present, &table, error);
    owner = getpid();
    ep4j_started = table;
    if (table != NULL) {
      /* Without memory for the handler the functions tell a child themselves, if its thread is attached. */
      (void)pthread_atfork(NULL, NULL, ep4j_in_child);
    }
  } else if (owner != getpid()) {
    status = ep4j_failed(error, 2010,
                         "this process was forked from %d, whose JVM it cannot use: start ep4j after the"
                         " fork, or execute a new program",
                         (int)owner);
  }
  if (status == 0) {
    *api = ep4j_started;
  }
  pthread_mutex_unlock(&lock);
  return status;
}

#ifdef __cplusplus
}
#endif

#endif /* EP4J_IMPLEMENTATION */
