// orphans COUNT,BATCH,DONE: a job that lets go of COUNT processes, BATCH of them at a time, which all end at once as
// children of the supervisor. It appends the time to DONE when the last of them is dead, then sleeps until a signal.
#include "common.h"
#include <sys/wait.h>

// Starts `number` orphans that live until the pipe `leash` closes; each holds `living` open while it lives.
static void let_go(int number) {
    int leash[2], living[2];
    if (pipe(leash) || pipe(living)) fail("pipe");
    pid_t parent = fork();
    if (parent < 0) fail("fork");
    if (parent == 0) {
        close(leash[1]);
        close(living[0]);
        for (int index = 0; index < number; index++) {
            pid_t orphan = fork();
            if (orphan < 0) fail("fork");
            if (orphan == 0) {
                char byte;
                while (read(leash[0], &byte, 1) < 0 && errno == EINTR) {}
                _exit(0);
            }
        }
        _exit(0);
    }
    close(leash[0]);
    close(living[1]);
    while (waitpid(parent, NULL, 0) < 0 && errno == EINTR) {}
    close(leash[1]);
    char byte;
    while (read(living[0], &byte, 1) < 0 && errno == EINTR) {}
    close(living[0]);
}

int main(int count, char **arguments) {
    if (count < 2) return 2;
    char *number_text = strtok(arguments[1], ","), *batch_text = strtok(NULL, ","), *done = strtok(NULL, ",");
    if (!done) return 2;
    int number = atoi(number_text), batch = atoi(batch_text);
    if (batch < 1) return 2;
    while (number > 0) {
        let_go(number < batch ? number : batch);
        number -= batch;
    }
    append(done, now());
    for (;;) pause();
}
