/* Loaded before a program, it ends it at the n-th call that writes, flushes or renames, as a power switch would.

   SWEEPDB_KILL_AT is n, 0 for never; SWEEPDB_CALLS names a file that the count of calls is written to at the end. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

static long calls, kill_at = -1;

static void count(void) {
    if (kill_at < 0) {
        const char *text = getenv("SWEEPDB_KILL_AT");
        kill_at = text ? atol(text) : 0;
    }
    if (__sync_add_and_fetch(&calls, 1) == kill_at)
        kill(getpid(), SIGKILL);
}

#define COUNTED(result, name, declared, given)                          \
    result name declared {                                              \
        static result(*next) declared;                                  \
        if (!next)                                                      \
            next = (result(*) declared)dlsym(RTLD_NEXT, #name);         \
        count();                                                        \
        return next given;                                              \
    }

COUNTED(ssize_t, write, (int file, const void *data, size_t size), (file, data, size))
COUNTED(ssize_t, pwrite, (int file, const void *data, size_t size, off_t at), (file, data, size, at))
COUNTED(ssize_t, pwrite64, (int file, const void *data, size_t size, off64_t at), (file, data, size, at))
COUNTED(ssize_t, writev, (int file, const struct iovec *parts, int many), (file, parts, many))
COUNTED(ssize_t, send, (int socket, const void *data, size_t size, int flags), (socket, data, size, flags))
COUNTED(int, fsync, (int file), (file))
COUNTED(int, fdatasync, (int file), (file))
COUNTED(int, rename, (const char *from, const char *to), (from, to))
COUNTED(int, renameat, (int one, const char *from, int other, const char *to), (one, from, other, to))
COUNTED(int, unlink, (const char *path), (path))
COUNTED(int, link, (const char *from, const char *to), (from, to))
COUNTED(int, ftruncate, (int file, off_t size), (file, size))
COUNTED(int, ftruncate64, (int file, off64_t size), (file, size))

__attribute__((destructor)) static void tell(void) {
    const char *path = getenv("SWEEPDB_CALLS");
    FILE *file = path ? fopen(path, "w") : NULL;
    if (file) {
        fprintf(file, "%ld\n", calls);
        fclose(file);
    }
}
