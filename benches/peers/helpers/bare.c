// What the work costs with no supervisor at all, by posix_spawn alone:
// bare many COUNT PROGRAM ARGUMENT…   starts COUNT of them; SIGTERM ends and reaps them all
// bare again PROGRAM ARGUMENT…        starts one and waits for it, over and over until SIGTERM
// bare paced COUNT PROGRAM ARGUMENT…  starts one COUNT times a second, waiting for each, until SIGTERM
#include "common.h"
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>

extern char **environ;
static volatile sig_atomic_t ended;

static void end(int signal) {
    (void)signal;
    ended = 1;
}

static pid_t start(char **arguments) {
    pid_t child;
    int error = posix_spawn(&child, arguments[0], NULL, NULL, arguments, environ);
    if (error) {
        errno = error;
        fail(arguments[0]);
    }
    return child;
}

int main(int count, char **arguments) {
    if (count < 3) return 2;
    struct sigaction action = {.sa_handler = end};
    sigaction(SIGTERM, &action, NULL);
    if (!strcmp(arguments[1], "again")) {
        while (!ended) {
            pid_t child = start(arguments + 2);
            while (waitpid(child, NULL, 0) < 0 && errno == EINTR) {}
        }
        return 0;
    }
    int number = atoi(arguments[2]);
    if (!strcmp(arguments[1], "paced")) {
        uint64_t due = now();
        while (!ended) {
            pid_t child = start(arguments + 3);
            while (waitpid(child, NULL, 0) < 0 && errno == EINTR) {}
            due += 1000000000u / (unsigned)number;
            struct timespec until = {.tv_sec = (time_t)(due / 1000000000u), .tv_nsec = (long)(due % 1000000000u)};
            clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL);
        }
        return 0;
    }
    pid_t *children = calloc((size_t)number, sizeof *children);
    for (int index = 0; index < number; index++) children[index] = start(arguments + 3);
    sigset_t term, before;
    sigemptyset(&term);
    sigaddset(&term, SIGTERM);
    sigprocmask(SIG_BLOCK, &term, &before);
    while (!ended) sigsuspend(&before);
    for (int index = 0; index < number; index++) kill(children[index], SIGTERM);
    while (wait(NULL) > 0 || errno == EINTR) {}
    return 0;
}
