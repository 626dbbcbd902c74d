// tick FILE: a job that appends the time to FILE and ends.
#include "common.h"

int main(int count, char **arguments) {
    uint64_t time = now();
    if (count < 2) return 2;
    append(arguments[1], time);
    return 0;
}
