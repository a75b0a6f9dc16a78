/* Loaded before a program, it ends it at the n-th call that writes, flushes or renames, as a power switch would.

   SWEEPDB_KILL_AT is n, 0 for never. From the call SWEEPDB_FULL_AT on, the disk is full instead. SWEEPDB_CALLS names a
   file that the count of calls is written to at the end. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

static long calls, kill_at = -1, full_at = -1;

static long number_of(const char *name) {
    const char *text = getenv(name);
    return text ? atol(text) : 0;
}

/* Count a call; say whether the disk is full for it. Where it is, nothing is written but to what is no file. */
static int counted(int file, int grows) {
    struct stat found;
    if (kill_at < 0) {
        kill_at = number_of("SWEEPDB_KILL_AT");
        full_at = number_of("SWEEPDB_FULL_AT");
    }
    long now = __sync_add_and_fetch(&calls, 1);
    if (now == kill_at)
        kill(getpid(), SIGKILL);
    if (!grows || !full_at || now < full_at || file <= 2 || fstat(file, &found) || !S_ISREG(found.st_mode))
        return 0;
    errno = ENOSPC;
    return 1;
}

#define COUNTED(result, name, declared, given, file, grows)             \
    result name declared {                                              \
        static result(*next) declared;                                  \
        if (!next)                                                      \
            next = (result(*) declared)dlsym(RTLD_NEXT, #name);         \
        return counted(file, grows) ? -1 : next given;                  \
    }

COUNTED(ssize_t, write, (int file, const void *data, size_t size), (file, data, size), file, 1)
COUNTED(ssize_t, pwrite, (int file, const void *data, size_t size, off_t at), (file, data, size, at), file, 1)
COUNTED(ssize_t, pwrite64, (int file, const void *data, size_t size, off64_t at), (file, data, size, at), file, 1)
COUNTED(ssize_t, writev, (int file, const struct iovec *parts, int many), (file, parts, many), file, 1)
COUNTED(ssize_t, send, (int socket, const void *data, size_t size, int flags), (socket, data, size, flags), -1, 0)
COUNTED(int, fsync, (int file), (file), file, 0)
COUNTED(int, fdatasync, (int file), (file), file, 0)
COUNTED(int, rename, (const char *from, const char *to), (from, to), -1, 0)
COUNTED(int, renameat, (int one, const char *from, int other, const char *to), (one, from, other, to), -1, 0)
COUNTED(int, unlink, (const char *path), (path), -1, 0)
COUNTED(int, link, (const char *from, const char *to), (from, to), -1, 0)
COUNTED(int, ftruncate, (int file, off_t size), (file, size), file, 0)
COUNTED(int, ftruncate64, (int file, off64_t size), (file, size), file, 0)

__attribute__((destructor)) static void tell(void) {
    const char *path = getenv("SWEEPDB_CALLS");
    FILE *file = path ? fopen(path, "w") : NULL;
    if (file) {
        fprintf(file, "%ld\n", calls);
        fclose(file);
    }
}

/* The program ends itself so where it waits for nothing: no destructor runs then. */
__attribute__((noreturn)) void _exit(int code) {
    tell();
    ((void (*)(int))dlsym(RTLD_NEXT, "_exit"))(code);
    __builtin_unreachable();
}
