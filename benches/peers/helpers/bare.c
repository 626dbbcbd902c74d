// What the work costs with no supervisor at all, by posix_spawn alone:
// bare many COUNT PROGRAM ARGUMENT…   starts COUNT of them; SIGTERM ends and reaps them all
// bare again PROGRAM ARGUMENT…        starts one and waits for it, over and over until SIGTERM
// bare piped COUNT PROGRAM ARGUMENT…  the same with what a supervisor asks of the kernel besides: for each a group, two
//                                    pipes that are watched, and variables that tell it the processes before it
// bare init PROGRAM ARGUMENT -- PROGRAM ARGUMENT…  starts both, the first again whenever it ends, and reaps all
// bare paced COUNT PROGRAM ARGUMENT…  starts one COUNT times a second, waiting for each, until SIGTERM
#include "common.h"
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/epoll.h>
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

static pid_t start_piped(char **arguments, char **variables, int null, int epoll) {
    int pipes[2][2];
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, null, 0);
    for (int which = 0; which < 2; which++) {
        if (pipe2(pipes[which], O_CLOEXEC)) fail("pipe");
        fcntl(pipes[which][0], F_SETFL, O_NONBLOCK);
        posix_spawn_file_actions_adddup2(&actions, pipes[which][1], which + 1);
    }
    posix_spawnattr_t attributes;
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
    posix_spawnattr_setpgroup(&attributes, 0);
    pid_t child;
    int error = posix_spawn(&child, arguments[0], &actions, &attributes, arguments, variables);
    if (error) {
        errno = error;
        fail(arguments[0]);
    }
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
    for (int which = 0; which < 2; which++) {
        close(pipes[which][1]);
        struct epoll_event event = {.events = EPOLLIN, .data.fd = pipes[which][0]};
        if (epoll_ctl(epoll, EPOLL_CTL_ADD, pipes[which][0], &event)) fail("epoll_ctl");
    }
    return child;
}

static void start_all_piped(int number, char **arguments, pid_t *children) {
    size_t inherited = 0;
    while (environ[inherited]) inherited++;
    char **variables = calloc(inherited + (size_t)number + 1, sizeof *variables);
    memcpy(variables, environ, inherited * sizeof *variables);
    int null = open("/dev/null", O_RDONLY | O_CLOEXEC), epoll = epoll_create1(EPOLL_CLOEXEC);
    for (int index = 0; index < number; index++) {
        children[index] = start_piped(arguments, variables, null, epoll);
        char text[64];
        snprintf(text, sizeof text, "CONTAINERPILOT_JOB_%d_PID=%d", index, (int)children[index]);
        variables[inherited + (size_t)index] = strdup(text);
    }
}

static int be_init(char **arguments) {
    char **other = arguments;
    while (*other && strcmp(*other, "--")) other++;
    if (!*other) return 2;
    *other++ = NULL;
    start(other);
    pid_t again = start(arguments);
    while (!ended) {
        pid_t child = wait(NULL);
        if (child == again) again = start(arguments);
    }
    return 0;
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
    if (!strcmp(arguments[1], "init")) return be_init(arguments + 2);
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
    if (!strcmp(arguments[1], "piped")) start_all_piped(number, arguments + 3, children);
    else for (int index = 0; index < number; index++) children[index] = start(arguments + 3);
    sigset_t term, before;
    sigemptyset(&term);
    sigaddset(&term, SIGTERM);
    sigprocmask(SIG_BLOCK, &term, &before);
    while (!ended) sigsuspend(&before);
    for (int index = 0; index < number; index++) kill(children[index], SIGTERM);
    while (wait(NULL) > 0 || errno == EINTR) {}
    return 0;
}
