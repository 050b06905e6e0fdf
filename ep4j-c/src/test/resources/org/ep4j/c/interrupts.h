/* Interrupts of a rank that waits for another one; both are threads of this process. */
#ifndef INTERRUPTS_H
#define INTERRUPTS_H

#include <semaphore.h>
#include <time.h>

#include "throughput.h"

/* From the first interrupt to the return of the call. */
#define LONGEST_MS 1000
#define WAITING_MS 100
#define SHORT_CALLS 100000

/* Rank 0 posts `waits` before a call and `ended` behind it, and continues with `idle`: no interrupt is on
   its way then. Rank 1 takes part in what rank 0 waited for after `go`. */
static struct {
  ep4j_group groups[2];
  uint64_t caller;
  sem_t waits;
  sem_t ended;
  sem_t idle;
  sem_t go;
} scene;

static void sleep_ms(long millis) {
  struct timespec time;
  time.tv_sec = 0;
  time.tv_nsec = millis * 1000000;
  nanosleep(&time, NULL);
}

static void check_interrupted(int32_t code, int64_t begin) {
  ep4j_error error = {sizeof error, 0, 0, 0, 0, {0}};
  CHECK(now_ms() - begin < WAITING_MS + LONGEST_MS);
  OK(ep4j->last_error(&error));
  CHECK(error.code == code && error.kind == EP4J_ERROR_INTERRUPTED);
}

/* The call has ended: waits until no further interrupt is on its way. */
static void await_idle(void) {
  CHECK(sem_post(&scene.ended) == 0);
  CHECK(sem_wait(&scene.idle) == 0);
}

static int64_t begin_waiting(void) {
  CHECK(sem_post(&scene.waits) == 0);
  return now_ms();
}

static void interrupted_operation(ep4j_buffer buffer, const inputs *in) {
  ep4j_dispatch_args args = dispatch_args(in);
  ep4j_dispatch_result got = {sizeof got};
  int64_t begin = begin_waiting();
  FAILS(4005, ep4j->dispatch(buffer, &args, &got));
  check_interrupted(4005, begin);
  await_idle();
  FAILS(2304, ep4j->dispatch(buffer, &args, &got));
  OK(ep4j->buffer_reset(buffer));
  flat(buffer, in);
}

/* The barrier counts as called: rank 1 finds the part of rank 0. */
static void interrupted_barrier(void) {
  int64_t begin = begin_waiting();
  FAILS(3036, ep4j->group_barrier(scene.groups[0], 60000));
  check_interrupted(3036, begin);
  await_idle();
}

static void interrupted_event(ep4j_buffer buffer, const inputs *in) {
  ep4j_dispatch_args args = dispatch_args(in);
  ep4j_dispatch_result got = {sizeof got};
  int32_t done = 0;
  int64_t begin;
  args.execution.async = 1;
  OK(ep4j->dispatch(buffer, &args, &got));
  begin = begin_waiting();
  FAILS(4003, ep4j->event_wait(got.event, -1, &done));
  check_interrupted(4003, begin);
  await_idle();
  OK(ep4j->event_wait(got.event, -1, &done));
  CHECK(done == 1);
  OK(ep4j->close(got.event));
}

/* Interrupts arrive in calls that do not wait, behind them and between them: none of them has an effect. */
static void interrupted_without_effect(void) {
  ep4j_group_info info = {sizeof info, 0, 0, 0, 0, {0}};
  int i;
  begin_waiting();
  for (i = 0; i < SHORT_CALLS; i++) {
    OK(ep4j->group_info(scene.groups[0], &info));
  }
  await_idle();
  OK(ep4j->group_barrier(scene.groups[0], 60000));
}

static void *interrupted_rank(void *in) {
  ep4j_buffer_config config = config_of();
  ep4j_buffer buffer = 0;
  uint64_t again = 0;
  FAILS(1041, ep4j->caller(NULL));
  OK(ep4j->caller(&scene.caller));
  OK(ep4j->caller(&again));
  CHECK(again == scene.caller);
  OK(ep4j->buffer_open(scene.groups[0], &config, &buffer));
  interrupted_operation(buffer, (inputs *)in);
  interrupted_barrier();
  interrupted_event(buffer, (inputs *)in);
  interrupted_without_effect();
  OK(ep4j->close(buffer));
  return NULL;
}

static void *late_rank(void *in) {
  ep4j_buffer_config config = config_of();
  ep4j_buffer buffer = 0;
  ep4j_dispatch_args args = dispatch_args((inputs *)in);
  ep4j_dispatch_result got = {sizeof got};
  ep4j_error error = {sizeof error, 0, 0, 0, 0, {0}};
  OK(ep4j->buffer_open(scene.groups[1], &config, &buffer));
  CHECK(sem_wait(&scene.go) == 0);
  FAILS(4000, ep4j->dispatch(buffer, &args, &got));
  OK(ep4j->last_error(&error));
  CHECK(error.rank == 0 && strstr(error.text, "interrupted") != NULL);
  OK(ep4j->buffer_reset(buffer));
  flat(buffer, (inputs *)in);
  CHECK(sem_wait(&scene.go) == 0);
  OK(ep4j->group_barrier(scene.groups[1], 60000));
  CHECK(sem_wait(&scene.go) == 0);
  OK(ep4j->dispatch(buffer, &args, &got));
  CHECK(sem_wait(&scene.go) == 0);
  OK(ep4j->group_barrier(scene.groups[1], 60000));
  OK(ep4j->close(buffer));
  return NULL;
}

/* Interrupts the next call of rank 0 again and again, until it has ended. */
static void interrupt_rank(long first_ms, long pause_ms) {
  CHECK(sem_wait(&scene.waits) == 0);
  sleep_ms(first_ms);
  do {
    OK(ep4j->interrupt(scene.caller));
    sleep_ms(pause_ms);
  } while (sem_trywait(&scene.ended) != 0);
  CHECK(sem_post(&scene.idle) == 0);
  CHECK(sem_post(&scene.go) == 0);
}

static void interrupts(void) {
  pthread_t waiting;
  pthread_t late;
  inputs *in = (inputs *)calloc(2, sizeof *in);
  int i;
  CHECK(in != NULL);
  CHECK(sem_init(&scene.waits, 0, 0) == 0 && sem_init(&scene.ended, 0, 0) == 0);
  CHECK(sem_init(&scene.idle, 0, 0) == 0 && sem_init(&scene.go, 0, 0) == 0);
  FAILS(1040, ep4j->interrupt(1)); /* no thread has a number yet */
  OK(ep4j->group_in_process(2, scene.groups));
  fill_inputs(&in[0], 0, 2);
  fill_inputs(&in[1], 1, 2);
  CHECK(pthread_create(&waiting, NULL, interrupted_rank, &in[0]) == 0);
  CHECK(pthread_create(&late, NULL, late_rank, &in[1]) == 0);
  for (i = 0; i < 3; i++) {
    interrupt_rank(WAITING_MS, 5);
  }
  interrupt_rank(0, 0);
  CHECK(pthread_join(waiting, NULL) == 0);
  CHECK(pthread_join(late, NULL) == 0);
  OK(ep4j->interrupt(scene.caller)); /* its thread has ended */
  FAILS(1040, ep4j->interrupt(0));
  FAILS(1040, ep4j->interrupt(scene.caller + 1));
  OK(ep4j->close(scene.groups[0]));
  OK(ep4j->close(scene.groups[1]));
  free(in);
}

#endif
