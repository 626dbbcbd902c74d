// stamp FILE PROGRAM ARGUMENT…: appends the time to FILE and becomes PROGRAM.
#include "common.h"

int main(int count, char **arguments) {
    if (count < 3) return 2;
    append(arguments[1], now());
    execv(arguments[2], arguments + 2);
    fail(arguments[2]);
}
