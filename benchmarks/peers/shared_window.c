#include "shared_window.h"

#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static const size_t HUGE_PAGE = (size_t)2 << 20;
enum { LINE = 64 };

static _Noreturn void fail(const char* what) {
  perror(what);
  MPI_Abort(MPI_COMM_WORLD, 1);
  abort();
}

/* Maps a part at an address aligned to huge pages, which the kernel requires for them. */
static char* map(int fd, size_t bytes) {
  char* space =
      mmap(NULL, bytes + HUGE_PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (space == MAP_FAILED) fail("cannot reserve addresses for a window");
  char* aligned = space + (HUGE_PAGE - (uintptr_t)space % HUGE_PAGE) % HUGE_PAGE;
  char* part = mmap(aligned, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0);
  if (part == MAP_FAILED) fail("cannot map a window");
  if (aligned != space) munmap(space, aligned - space);
  munmap(aligned + bytes, space + HUGE_PAGE - aligned);
  madvise(part, bytes, MADV_HUGEPAGE); /* advice only */
  return part;
}

static void open_memfd(shared_window* s, const world* here) {
  const int fd = memfd_create("ep4j-peer", MFD_CLOEXEC);
  if (fd < 0 || ftruncate(fd, (off_t)s->bytes) != 0) fail("cannot create a window");
  const int64_t mine[2] = {getpid(), fd};
  int64_t theirs[MAX_RANKS][2];
  MPI_Allgather(mine, 2, MPI_INT64_T, theirs, 2, MPI_INT64_T, MPI_COMM_WORLD);
  s->base[here->rank] = map(fd, s->bytes);
  memset(s->base[here->rank], 0, s->bytes);
  MPI_Barrier(MPI_COMM_WORLD); /* every owner has touched its pages before others do */
  for (int r = 0; r < s->ranks; r++) {
    if (r == here->rank) continue;
    char path[64];
    snprintf(path, sizeof path, "/proc/%lld/fd/%lld", (long long)theirs[r][0],
             (long long)theirs[r][1]);
    const int other = open(path, O_RDWR | O_CLOEXEC);
    if (other < 0) fail(path);
    s->base[r] = map(other, s->bytes);
    close(other);
  }
  MPI_Barrier(MPI_COMM_WORLD); /* all ranks have opened the descriptor */
  close(fd);
}

static void open_mpi(shared_window* s, const world* here) {
  MPI_Info info;
  MPI_Info_create(&info);
  MPI_Info_set(info, "alloc_shared_noncontig", "true"); /* each part on its own pages */
  char* base;
  MPI_Win_allocate_shared((MPI_Aint)(s->bytes + LINE), 1, info, MPI_COMM_WORLD, &base, &s->window);
  MPI_Info_free(&info);
  for (int r = 0; r < s->ranks; r++) {
    MPI_Aint size;
    int unit;
    MPI_Win_shared_query(s->window, r, &size, &unit, &base);
    /* MPI aligns to less than a line. All ranks map the same pages, so all get the same offset. */
    s->base[r] = base + (LINE - (uintptr_t)base % LINE) % LINE;
  }
  memset(s->base[here->rank], 0, s->bytes);
  MPI_Barrier(MPI_COMM_WORLD);
}

void shared_window_open(shared_window* s, const world* here, size_t bytes, bool memfd) {
  *s = (shared_window){.ranks = here->ranks, .window = MPI_WIN_NULL};
  s->bytes = (bytes + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE;
  if (memfd) {
    open_memfd(s, here);
  } else {
    open_mpi(s, here);
  }
}

void shared_window_close(shared_window* s) {
  if (s->window != MPI_WIN_NULL) {
    MPI_Win_free(&s->window);
    return;
  }
  for (int r = 0; r < s->ranks; r++) munmap(s->base[r], s->bytes);
}
