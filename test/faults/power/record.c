/* Records what a process does to the files of one folder: preloaded into it, it sits between it and the C library.
 *
 * POWER_FOLDER is the folder, without a slash at its end; POWER_LOG is the file to which records are appended, by all
 * processes that have it, each record with one write. A record is its length, a letter, the inode, two numbers, the
 * lengths of two names and of the data, and these three (images.ts reads them):
 *
 *   c NAME                a file was made            t NAME size           it was cut or extended
 *   w NAME at DATA        bytes were written         s NAME at DATA        an index of a log, as it is in memory
 *   b NAME token          a sync begins              e NAME token          it has ended well
 *   r NAME NAME           renamed                    l NAME NAME           linked              u NAME  removed
 *
 * The index of a log (-shm) is mapped, and a write to memory passes nobody here: it is copied at the end of each sync. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#define REAL(result, name, ...)                        \
  static result (*real)(__VA_ARGS__);                  \
  if (!real) real = (result(*)(__VA_ARGS__))dlsym(RTLD_NEXT, #name)

struct head {
  uint32_t length;
  uint32_t kind;
  uint64_t inode, first, second;
  uint32_t name, other, data;
} __attribute__((packed));

static int log_fd = -1;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static int open_log(void) {
  static int (*real)(const char *, int, ...);
  if (!real) real = (int (*)(const char *, int, ...))dlsym(RTLD_NEXT, "open64");
  if (log_fd < 0 && getenv("POWER_LOG")) log_fd = real(getenv("POWER_LOG"), O_WRONLY | O_APPEND | O_CLOEXEC);
  return log_fd;
}

static void record(char kind, uint64_t inode, uint64_t first, uint64_t second, const char *name, const char *other,
                   const void *data, size_t size) {
  static ssize_t (*real)(int, const struct iovec *, int);
  if (!real) real = (ssize_t(*)(int, const struct iovec *, int))dlsym(RTLD_NEXT, "writev");
  int kept = errno;
  struct head head = {0, kind, inode, first, second, strlen(name), strlen(other), size};
  head.length = sizeof head + head.name + head.other + head.data;
  struct iovec parts[] = {{&head, sizeof head}, {(void *)name, head.name}, {(void *)other, head.other},
                          {(void *)data, size}};
  pthread_mutex_lock(&lock);
  if (open_log() >= 0 && real(log_fd, parts, 4) != head.length) abort();
  pthread_mutex_unlock(&lock);
  errno = kept;
}

/* The name inside the folder; null for a file elsewhere. The folder itself is the empty name. */
static const char *inside(const char *path) {
  const char *folder = getenv("POWER_FOLDER");
  size_t length = folder ? strlen(folder) : 0;
  if (!length || strncmp(path, folder, length)) return NULL;
  if (!path[length]) return path + length;
  return path[length] == '/' ? path + length + 1 : NULL;
}

static const char *name_of(int fd, char *path) {
  char link[64];
  int kept = errno;
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  ssize_t length = readlink(link, path, 4095);
  errno = kept;
  if (length < 0) return NULL;
  path[length] = 0;
  return inside(path);
}

static uint64_t inode_of(int fd) {
  struct stat found;
  int kept = errno;
  uint64_t inode = fstat(fd, &found) ? 0 : found.st_ino;
  errno = kept;
  return inode;
}

static int is_index(const char *name) {
  size_t length = strlen(name);
  return length > 4 && !strcmp(name + length - 4, "-shm");
}

/* A path as given to a call, made whole. */
static const char *named(int folder, const char *path, char *whole) {
  if (path[0] == '/') return inside(path);
  if (folder != AT_FDCWD) {
    if (!name_of(folder, whole)) return NULL;
  } else if (!getcwd(whole, 2048)) return NULL;
  size_t length = strlen(whole);
  snprintf(whole + length, 4096 - length, "/%s", path);
  return inside(whole);
}

/* Mapped indexes. */

static struct mapped {
  char name[256];
  unsigned char *at;
  size_t size;
  uint64_t offset, inode, sum;
} mapped[64];

static void map(void *at, size_t size, int fd, uint64_t offset) {
  char path[4096];
  const char *name = fd < 0 ? NULL : name_of(fd, path);
  if (at == MAP_FAILED || !name || !is_index(name)) return;
  for (int i = 0; i < 64; i++) {
    if (mapped[i].at) continue;
    snprintf(mapped[i].name, sizeof mapped[i].name, "%s", name);
    mapped[i].size = size, mapped[i].offset = offset, mapped[i].inode = inode_of(fd), mapped[i].sum = 0;
    mapped[i].at = at;
    return;
  }
}

static void copy_indexes(void) {
  for (int i = 0; i < 64; i++) {
    if (!mapped[i].at) continue;
    uint64_t sum = 1469598103934665603u;
    for (size_t n = 0; n < mapped[i].size; n += 8) sum = (sum ^ *(uint64_t *)(mapped[i].at + n)) * 1099511628211u;
    if (sum == mapped[i].sum) continue;
    mapped[i].sum = sum;
    record('s', mapped[i].inode, mapped[i].offset, 0, mapped[i].name, "", mapped[i].at, mapped[i].size);
  }
}

/* Calls on names. */

static int opened(int fd, int flags, int was_there) {
  char path[4096];
  if (fd < 0 || !(flags & (O_CREAT | O_TRUNC))) return fd;
  const char *name = name_of(fd, path);
  if (!name || is_index(name)) return fd;
  if (!was_there) record('c', inode_of(fd), 0, 0, name, "", "", 0);
  else if (flags & O_TRUNC) record('t', inode_of(fd), 0, 0, name, "", "", 0);
  return fd;
}

static int is_there(int folder, const char *path) {
  struct stat found;
  int kept = errno, missing = fstatat(folder, path, &found, 0);
  errno = kept;
  return !missing;
}

#define MODE                                         \
  va_list given;                                     \
  va_start(given, flags);                            \
  mode_t mode = flags & O_CREAT ? va_arg(given, int) : 0; \
  va_end(given)

#define OPEN(name)                                                      \
  int name(const char *path, int flags, ...) {                          \
    REAL(int, name, const char *, int, mode_t);                         \
    MODE;                                                               \
    int was = is_there(AT_FDCWD, path);                                 \
    return opened(real(path, flags, mode), flags, was);                 \
  }
#define OPENAT(name)                                                    \
  int name(int folder, const char *path, int flags, ...) {              \
    REAL(int, name, int, const char *, int, mode_t);                    \
    MODE;                                                               \
    int was = is_there(folder, path);                                   \
    return opened(real(folder, path, flags, mode), flags, was);         \
  }
OPEN(open)
OPEN(open64)
OPENAT(openat)
OPENAT(openat64)

static int pair(char kind, int result, int from_folder, const char *from, int to_folder, const char *to) {
  char one[8192], two[8192];
  if (result) return result;
  const char *name = named(from_folder, from, one), *other = named(to_folder, to, two);
  if (name && other && !is_index(other)) record(kind, 0, 0, 0, name, other, "", 0);
  return result;
}
static int gone(int result, int folder, const char *path) {
  char whole[8192];
  const char *name = result ? NULL : named(folder, path, whole);
  if (name && !is_index(name)) record('u', 0, 0, 0, name, "", "", 0);
  return result;
}

int rename(const char *from, const char *to) {
  REAL(int, rename, const char *, const char *);
  return pair('r', real(from, to), AT_FDCWD, from, AT_FDCWD, to);
}
int link(const char *from, const char *to) {
  REAL(int, link, const char *, const char *);
  return pair('l', real(from, to), AT_FDCWD, from, AT_FDCWD, to);
}
int unlink(const char *path) {
  REAL(int, unlink, const char *);
  return gone(real(path), AT_FDCWD, path);
}
int remove(const char *path) {
  REAL(int, remove, const char *);
  return gone(real(path), AT_FDCWD, path);
}
int unlinkat(int folder, const char *path, int flags) {
  REAL(int, unlinkat, int, const char *, int);
  return gone(real(folder, path, flags), folder, path);
}

/* Calls on open files. */

static ssize_t wrote(int fd, ssize_t size, const void *from, off_t at) {
  char path[4096];
  const char *name = size > 0 && fd != log_fd ? name_of(fd, path) : NULL;
  if (name && !is_index(name))
    record('w', inode_of(fd), at < 0 ? lseek(fd, 0, SEEK_CUR) - size : at, 0, name, "", from, size);
  return size;
}
ssize_t write(int fd, const void *from, size_t size) {
  REAL(ssize_t, write, int, const void *, size_t);
  return wrote(fd, real(fd, from, size), from, -1);
}
#define PWRITE(name)                                                    \
  ssize_t name(int fd, const void *from, size_t size, off_t at) {       \
    REAL(ssize_t, name, int, const void *, size_t, off_t);              \
    return wrote(fd, real(fd, from, size, at), from, at);               \
  }
PWRITE(pwrite)
PWRITE(pwrite64)

ssize_t writev(int fd, const struct iovec *parts, int count) {
  REAL(ssize_t, writev, int, const struct iovec *, int);
  ssize_t size = real(fd, parts, count), left = size;
  char path[4096], *bytes = size > 0 && fd != log_fd && name_of(fd, path) ? malloc(size) : NULL;
  if (!bytes) return size;
  for (int i = 0; left > 0; i++) {
    size_t part = (size_t)left < parts[i].iov_len ? (size_t)left : parts[i].iov_len;
    memcpy(bytes + (size - left), parts[i].iov_base, part);
    left -= part;
  }
  wrote(fd, size, bytes, -1);
  free(bytes);
  return size;
}

#define TRUNCATE(name)                                                              \
  int name(int fd, off_t size) {                                                    \
    REAL(int, name, int, off_t);                                                    \
    char path[4096];                                                                \
    int result = real(fd, size);                                                    \
    const char *file = result ? NULL : name_of(fd, path);                           \
    if (file && !is_index(file)) record('t', inode_of(fd), size, 0, file, "", "", 0); \
    return result;                                                                  \
  }
TRUNCATE(ftruncate)
TRUNCATE(ftruncate64)

#define SYNC(call)                                                                  \
  int call(int fd) {                                                                \
    REAL(int, call, int);                                                           \
    static uint32_t syncs;                                                          \
    char path[4096];                                                                \
    const char *name = name_of(fd, path);                                           \
    if (!name) return real(fd);                                                     \
    uint64_t token = (uint64_t)getpid() << 32 | __atomic_add_fetch(&syncs, 2, __ATOMIC_SEQ_CST) | (#call[1] == 'd'); \
    record('b', inode_of(fd), token, 0, name, "", "", 0);                           \
    int result = real(fd);                                                          \
    if (!result) record('e', inode_of(fd), token, 0, name, "", "", 0);              \
    copy_indexes();                                                                 \
    return result;                                                                  \
  }
SYNC(fsync)
SYNC(fdatasync)

#define MMAP(name)                                                                  \
  void *name(void *near, size_t size, int protection, int flags, int fd, off_t at) { \
    REAL(void *, name, void *, size_t, int, int, int, off_t);                       \
    void *found = real(near, size, protection, flags, fd, at);                      \
    if (flags & MAP_SHARED) map(found, size, fd, at);                               \
    return found;                                                                   \
  }
MMAP(mmap)
MMAP(mmap64)
int munmap(void *at, size_t size) {
  REAL(int, munmap, void *, size_t);
  for (int i = 0; i < 64; i++)
    if (mapped[i].at == at) mapped[i].at = NULL;
  return real(at, size);
}
