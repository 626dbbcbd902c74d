// lines COUNT,NUMBER,STAMPS[,stay]: a job that writes COUNT lines of 100 bytes to stdout, each "~NUMBER~SEQUENCE~"
// and then x up to its end, in writes of 64 KiB that do not stop at the end of a line. It appends the time of its
// start and that of its end to STAMPS. `stay`: it then sleeps until a signal, for supervisors that restart always.
#include "common.h"

enum { LINE = 100, CHUNK = 65536 };

int main(int count, char **arguments) {
    uint64_t start = now();
    if (count < 2) return 2;
    long lines = strtol(strtok(arguments[1], ","), NULL, 10);
    int number = atoi(strtok(NULL, ","));
    const char *stamps = strtok(NULL, ",");
    int stay = strtok(NULL, ",") != NULL;
    char prefix[16];
    size_t sequence = (size_t)snprintf(prefix, sizeof prefix, "~%03d~", number);
    // Room for a chunk and the line that goes beyond it.
    static char buffer[CHUNK + LINE];
    size_t filled = 0;
    char line[LINE];
    memset(line, 'x', LINE);
    memcpy(line, prefix, sequence);
    memset(line + sequence, '0', 9);
    line[sequence + 9] = '~';
    line[LINE - 1] = '\n';
    for (long index = 0; index < lines || filled; ) {
        while (filled < CHUNK && index < lines) {
            memcpy(buffer + filled, line, LINE);
            filled += LINE;
            index++;
            for (size_t digit = sequence + 8; ++line[digit] > '9'; digit--) line[digit] = '0';
        }
        size_t due = filled < CHUNK ? filled : CHUNK;
        for (size_t done = 0; done < due; ) {
            ssize_t written = write(1, buffer + done, due - done);
            if (written < 0 && errno != EINTR) fail("write");
            if (written > 0) done += (size_t)written;
        }
        memmove(buffer, buffer + due, filled - due);
        filled -= due;
    }
    uint64_t end = now();
    append(stamps, start);
    append(stamps, end);
    while (stay) pause();
    return 0;
}
