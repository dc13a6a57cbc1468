// Loaded with LD_PRELOAD: a disk that is full after SLM_DISK_BYTES more bytes. What is written to regular
// files counts, in one process; a write that does not fit stores what fits, the next gives ENOSPC. What is
// left at the end goes into the file SLM_DISK_LEFT, if there is that name.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static atomic_llong left = -1;  // -1: not read from the environment yet

// How many of `wanted` bytes fit; 0: none.
static size_t take(int fd, size_t wanted) {
  struct stat info;
  if (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) return wanted;
  long long unread = -1;
  atomic_compare_exchange_strong(&left, &unread, atoll(getenv("SLM_DISK_BYTES")));
  long long now = atomic_load(&left);
  long long fits;
  do {
    fits = now < (long long)wanted ? now : (long long)wanted;
  } while (!atomic_compare_exchange_weak(&left, &now, now - fits));
  return (size_t)fits;
}

__attribute__((destructor)) static void report(void) {
  const char* path = getenv("SLM_DISK_LEFT");
  FILE* file = path == NULL ? NULL : fopen(path, "w");
  if (file == NULL) return;
  const long long rest = atomic_load(&left);
  fprintf(file, "%lld", rest);
  fclose(file);
}

ssize_t write(int fd, const void* bytes, size_t size) {
  static ssize_t (*next)(int, const void*, size_t);
  if (next == NULL) next = (ssize_t (*)(int, const void*, size_t))dlsym(RTLD_NEXT, "write");
  const size_t fits = take(fd, size);
  if (fits > 0 || size == 0) return next(fd, bytes, fits);
  errno = ENOSPC;
  return -1;
}

static ssize_t pwrite_to(const char* name, int fd, const void* bytes, size_t size, off_t at) {
  ssize_t (*next)(int, const void*, size_t, off_t) =
      (ssize_t (*)(int, const void*, size_t, off_t))dlsym(RTLD_NEXT, name);
  const size_t fits = take(fd, size);
  if (fits > 0 || size == 0) return next(fd, bytes, fits, at);
  errno = ENOSPC;
  return -1;
}

ssize_t pwrite(int fd, const void* bytes, size_t size, off_t at) {
  return pwrite_to("pwrite", fd, bytes, size, at);
}
ssize_t pwrite64(int fd, const void* bytes, size_t size, off_t at) {
  return pwrite_to("pwrite64", fd, bytes, size, at);
}
