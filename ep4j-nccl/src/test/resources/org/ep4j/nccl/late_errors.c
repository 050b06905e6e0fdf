// NCCL and the CUDA driver for ranks that are threads of one process, without a GPU: a send copies
// the bytes to the matching receive, as soon as both have been called. Other functions of both
// libraries succeed and do nothing.
//
// Once the file EP4J_TEST_LOSES_FROM exists, the communicator of the next long send loses bytes
// as a network does that fails late: the call succeeds, and the stream has it done, because NCCL's
// proxy has taken the bytes; nothing arrives. A moment later the sender's communicator reports an
// error, and only there.
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { GPUS = 3, PAIRS = 256, WAITING = 64, LONG_BYTES = 8, REMOTE_ERROR = 6, NOT_READY = 600 };

static const int64_t DELAY_NANOS = 200000000;

// Guards all that follows.
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

typedef struct {
  long queued;
  long done;
} Stream;

typedef struct {
  Stream *stream;
  long after;
} Event;

typedef struct {
  char *memory;
  size_t bytes;
  Stream *stream;
} Batch;

// The calls of one end that have no counterpart yet.
typedef struct {
  Batch waiting[WAITING];
  long first;
  long end;
} Calls;

typedef struct {
  char bytes[128];
} Id;

typedef struct {
  Id id;
  Calls calls[2];  // of the sender, of the receiver
} Pair;

typedef struct {
  Pair *pair;
  int rank;
} Comm;

static Pair pairs[PAIRS];
static int known;
static Comm *loses;
static int64_t reported_from;

static int64_t now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1000000000ll + t.tv_nsec;
}

static void match(Pair *pair) {
  Calls *out = &pair->calls[0];
  Calls *in = &pair->calls[1];
  while (out->first < out->end && in->first < in->end) {
    Batch *from = &out->waiting[out->first++ % WAITING];
    Batch *to = &in->waiting[in->first++ % WAITING];
    memcpy(to->memory, from->memory, from->bytes);
    from->stream->done++;
    to->stream->done++;
  }
}

static void post(Comm *comm, void *memory, size_t bytes, Stream *stream) {
  Calls *own = &comm->pair->calls[comm->rank];
  own->waiting[own->end++ % WAITING] = (Batch){memory, bytes, stream};
  stream->queued++;
  match(comm->pair);
}

// --- NCCL -----------------------------------------------------------------------------------------

int ncclGetVersion(int *out) {
  *out = 22809;
  return 0;
}

int ncclGetUniqueId(Id *out) {
  static long ids;
  long id = __sync_add_and_fetch(&ids, 1);
  memset(out, 0, sizeof(*out));
  memcpy(out, &id, sizeof(id));
  return 0;
}

int ncclCommInitRankConfig(Comm **out, int ranks, Id id, int rank, void *config) {
  pthread_mutex_lock(&lock);
  int i = 0;
  while (i < known && memcmp(&pairs[i].id, &id, sizeof(id)) != 0) {
    i++;
  }
  if (i == known) {
    pairs[known++].id = id;
  }
  *out = calloc(1, sizeof(Comm));
  **out = (Comm){&pairs[i], rank};
  pthread_mutex_unlock(&lock);
  return 0;
}

int ncclCommGetAsyncError(Comm *comm, int *out) {
  pthread_mutex_lock(&lock);
  *out = comm == loses && now() >= reported_from ? REMOTE_ERROR : 0;
  pthread_mutex_unlock(&lock);
  return 0;
}

int ncclSend(void *from, size_t count, int type, int peer, Comm *comm, Stream *stream) {
  pthread_mutex_lock(&lock);
  if (loses == NULL && count > LONG_BYTES && access(getenv("EP4J_TEST_LOSES_FROM"), F_OK) == 0) {
    loses = comm;
    reported_from = now() + DELAY_NANOS;
  }
  if (comm == loses) {
    stream->queued++;
    stream->done++;
  } else {
    post(comm, from, count, stream);
  }
  pthread_mutex_unlock(&lock);
  return 0;
}

int ncclRecv(void *to, size_t count, int type, int peer, Comm *comm, Stream *stream) {
  pthread_mutex_lock(&lock);
  post(comm, to, count, stream);
  pthread_mutex_unlock(&lock);
  return 0;
}

int ncclCommAbort(Comm *comm) {
  pthread_mutex_lock(&lock);
  Calls *own = &comm->pair->calls[comm->rank];
  while (own->first < own->end) {
    own->waiting[own->first++ % WAITING].stream->done++;
  }
  pthread_mutex_unlock(&lock);
  return 0;
}

const char *ncclGetErrorString(int code) { return "remote process exited or there was a network error"; }
const char *ncclGetLastError(void *comm) { return "the port is down"; }

// --- the driver -----------------------------------------------------------------------------------

int cuDriverGetVersion(int *out) {
  *out = 13000;
  return 0;
}

int cuDeviceGetCount(int *out) {
  *out = GPUS;
  return 0;
}

int cuDeviceGet(int *out, int ordinal) {
  *out = ordinal;
  return 0;
}

int cuDeviceGetName(char *out, int bytes, int device) {
  snprintf(out, bytes, "none");
  return 0;
}

int cuDeviceGetPCIBusId(char *out, int bytes, int device) {
  snprintf(out, bytes, "0000:0%d:00.0", device + 1);
  return 0;
}

int cuDeviceGetAttribute(int *out, int attribute, int device) {
  *out = 9;
  return 0;
}

int cuMemHostAlloc(void **out, size_t bytes, unsigned flags) {
  *out = calloc(1, bytes);
  return 0;
}

int cuMemHostGetDevicePointer_v2(void **out, void *memory, unsigned flags) {
  *out = memory;
  return 0;
}

int cuMemFreeHost(void *memory) {
  free(memory);
  return 0;
}

int cuStreamCreateWithPriority(Stream **out, unsigned flags, int priority) {
  *out = calloc(1, sizeof(Stream));
  return 0;
}

int cuStreamQuery(Stream *stream) {
  pthread_mutex_lock(&lock);
  int done = stream->done == stream->queued;
  pthread_mutex_unlock(&lock);
  return done ? 0 : NOT_READY;
}

int cuEventCreate(Event **out, unsigned flags) {
  *out = calloc(1, sizeof(Event));
  return 0;
}

int cuEventRecord(Event *event, Stream *stream) {
  pthread_mutex_lock(&lock);
  *event = (Event){stream, stream->queued};
  pthread_mutex_unlock(&lock);
  return 0;
}

int cuEventQuery(Event *event) {
  pthread_mutex_lock(&lock);
  int done = event->stream == NULL || event->stream->done >= event->after;
  pthread_mutex_unlock(&lock);
  return done ? 0 : NOT_READY;
}
