#include "pages.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

static const size_t HUGE_PAGE = (size_t)2 << 20;

static size_t rounded(size_t bytes) { return (bytes + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE; }

void* pages_alloc(size_t bytes) {
  const size_t size = rounded(bytes == 0 ? 1 : bytes);
  /* One extra huge page, so that an aligned range fits inside; the ends are unmapped. */
  char* raw =
      mmap(NULL, size + HUGE_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (raw == MAP_FAILED) {
    fprintf(stderr, "cannot map %zu bytes of memory: use fewer tokens or buffers\n", size);
    exit(1);
  }
  const size_t head = (HUGE_PAGE - (uintptr_t)raw % HUGE_PAGE) % HUGE_PAGE;
  if (head != 0) munmap(raw, head);
  munmap(raw + head + size, HUGE_PAGE - head);
  madvise(raw + head, size, MADV_HUGEPAGE); /* advice only: small pages are slower, not wrong */
  memset(raw + head, 0, size);
  return raw + head;
}

void pages_free(void* address, size_t bytes) {
  if (address != NULL) munmap(address, rounded(bytes == 0 ? 1 : bytes));
}
