// probe STAMPS[,ALIVE]: a job. Its first act is to read the clock; it appends that to STAMPS. Then it holds the fifo
// ALIVE open, so that a reader sees the end of file when the last job is gone, and sleeps until a signal ends it.
// One argument, so that `#!/…/probe STAMPS,ALIVE` is a whole run script.
#include "common.h"

int main(int count, char **arguments) {
    uint64_t time = now();
    if (count < 2) return 2;
    char *alive = strchr(arguments[1], ',');
    if (alive) *alive++ = 0;
    append(arguments[1], time);
    if (alive && open(alive, O_WRONLY) < 0) fail(alive);
    for (;;) pause();
}
