// stopwatch PROGRAM ARGUMENT…: runs PROGRAM to its end, then prints to descriptor 3: nanoseconds from exec to end,
// microseconds of CPU of it and of what it waited for, its wait status.
#include "common.h"
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>

int main(int count, char **arguments) {
    if (count < 2) return 2;
    uint64_t *start = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    *start = 0;
    pid_t child = fork();
    if (child < 0) fail("fork");
    if (child == 0) {
        fcntl(3, F_SETFD, FD_CLOEXEC);
        *start = now();
        execv(arguments[1], arguments + 1);
        fail(arguments[1]);
    }
    int status = 0;
    struct rusage use;
    while (wait4(child, &status, 0, &use) < 0 && errno == EINTR) {}
    uint64_t end = now();
    long cpu = (use.ru_utime.tv_sec + use.ru_stime.tv_sec) * 1000000 + use.ru_utime.tv_usec + use.ru_stime.tv_usec;
    dprintf(3, "%llu %ld %d\n", (unsigned long long)(end - *start), cpu, status);
    return 0;
}
