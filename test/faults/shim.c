/* Makes chosen calls on chosen files fail: preloaded into the program, it sits between it and the C library.
 *
 * FAULTS names a file with one line, read at every call:  CALL NAME ERRNO SKIP TIMES
 * Calls of that kind (fsync, write, truncate, read) on files whose path contains NAME fail with ERRNO: not the first
 * SKIP of them, and TIMES of them at most (0: all from there on). Without the file nothing fails. The first failure
 * leaves a file FAULTS.fired. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

static int seen;

static int is_hit(const char *call, int fd) {
  char line[256], kind[16], name[128], link[64], path[4096];
  int code, skip, times, control, kept = errno;
  const char *faults = getenv("FAULTS");
  ssize_t length;
  if (!faults || (control = open(faults, O_RDONLY | O_CLOEXEC)) < 0) {
    seen = 0;
    errno = kept;
    return 0;
  }
  ssize_t (*real_read)(int, void *, size_t) = dlsym(RTLD_NEXT, "read");
  length = real_read(control, line, sizeof line - 1);
  close(control);
  errno = kept;
  line[length < 0 ? 0 : length] = 0;
  if (sscanf(line, "%15s %127s %d %d %d", kind, name, &code, &skip, &times) != 5 || strcmp(kind, call)) return 0;
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  length = readlink(link, path, sizeof path - 1);
  errno = kept;
  if (length < 0) return 0;
  path[length] = 0;
  if (!strstr(path, name) || ++seen <= skip || (times && seen > skip + times)) return 0;
  snprintf(line, sizeof line, "%s.fired", faults);
  if ((control = open(line, O_CREAT | O_WRONLY | O_CLOEXEC, 0600)) >= 0) close(control);
  errno = code;
  return 1;
}

#define STAND_IN(result, name, call, parameters, values)                          \
  result name parameters {                                                        \
    static result(*real) parameters;                                              \
    if (!real) real = dlsym(RTLD_NEXT, #name);                                    \
    return is_hit(call, fd) ? -1 : real values;                                   \
  }

STAND_IN(int, fsync, "fsync", (int fd), (fd))
STAND_IN(int, fdatasync, "fsync", (int fd), (fd))
STAND_IN(ssize_t, write, "write", (int fd, const void *from, size_t size), (fd, from, size))
STAND_IN(ssize_t, pwrite, "write", (int fd, const void *from, size_t size, off_t at), (fd, from, size, at))
STAND_IN(ssize_t, pwrite64, "write", (int fd, const void *from, size_t size, off64_t at), (fd, from, size, at))
STAND_IN(ssize_t, writev, "write", (int fd, const struct iovec *parts, int count), (fd, parts, count))
STAND_IN(ssize_t, sendfile, "write", (int fd, int from, off_t *at, size_t size), (fd, from, at, size))
STAND_IN(ssize_t, sendfile64, "write", (int fd, int from, off64_t *at, size_t size), (fd, from, at, size))
STAND_IN(int, ftruncate, "truncate", (int fd, off_t size), (fd, size))
STAND_IN(int, ftruncate64, "truncate", (int fd, off64_t size), (fd, size))
STAND_IN(ssize_t, read, "read", (int fd, void *into, size_t size), (fd, into, size))
STAND_IN(ssize_t, pread, "read", (int fd, void *into, size_t size, off_t at), (fd, into, size, at))
STAND_IN(ssize_t, pread64, "read", (int fd, void *into, size_t size, off64_t at), (fd, into, size, at))

/* Node copies a file with copy_file_range, which it calls by its number. Six words are what any call can have. */
long syscall(long number, ...) {
  static long (*real)(long, ...);
  long words[6];
  va_list given;
  va_start(given, number);
  for (int i = 0; i < 6; i++) words[i] = va_arg(given, long);
  va_end(given);
  if (!real) real = dlsym(RTLD_NEXT, "syscall");
  if (number == SYS_copy_file_range && is_hit("write", words[2])) return -1;
  return real(number, words[0], words[1], words[2], words[3], words[4], words[5]);
}
