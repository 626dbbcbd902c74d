// beat TIMES: a job that lives for 2 ms. It appends the time of its start and, as its last act, that of its end.
#include "common.h"

int main(int count, char **arguments) {
    uint64_t start = now();
    if (count < 2) return 2;
    append(arguments[1], start);
    usleep(2000);
    append(arguments[1], now());
    _exit(0);
}
